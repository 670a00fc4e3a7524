//! Tables of live objects: what a caller holds is a number, which is looked up and never followed.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::error::{CudaError, Result};

/// Objects of one kind by handle.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Table<T> {
    /// `kind` keeps the handles of different kinds apart, so that one passed as another is found to be invalid.
    pub(crate) fn new(kind: u8) -> Self {
        // Handles look like the pointers that the real driver hands out: far from small integers, aligned.
        let first = 0x5500_0000_0000 | u64::from(kind) << 32 | 0x100;
        Self { objects: RwLock::default(), next: AtomicU64::new(first) }
    }

    /// A handle that no object has had.
    pub(crate) fn reserve(&self) -> u64 {
        self.next.fetch_add(0x10, Relaxed)
    }

    /// Adds an object under a reserved handle.
    pub(crate) fn insert_at(&self, handle: u64, object: Arc<T>) {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).insert(handle, object);
    }

    /// Adds an object.
    pub(crate) fn insert(&self, object: T) -> u64 {
        let handle = self.reserve();
        self.insert_at(handle, Arc::new(object));
        handle
    }

    /// The object behind a handle.
    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle).map(Arc::clone).ok_or(CudaError::InvalidHandle)
    }

    /// Removes the object behind a handle.
    pub(crate) fn remove(&self, handle: u64) -> Result<Arc<T>> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&handle).ok_or(CudaError::InvalidHandle)
    }

    /// Removes all objects for which `condition` does not hold.
    pub(crate) fn retain(&self, condition: impl Fn(&T) -> bool) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|_, object| condition(object));
    }

    /// Does something with every object.
    pub(crate) fn for_each(&self, action: impl Fn(&T)) {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().for_each(|object| action(object));
    }

    /// An object for which the condition holds.
    pub(crate) fn find(&self, condition: impl Fn(&T) -> bool) -> Result<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().find(|object| condition(object)).map(Arc::clone).ok_or(CudaError::InvalidHandle)
    }
}
