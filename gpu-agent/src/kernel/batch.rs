//! Reading whole maps, many elements a system call where the kernel can.

use std::{io, os::fd::BorrowedFd};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::syscall::{self, BatchPosition, MapShape};

/// Elements per system call. A hash bucket rarely holds more than a few; a fuller one doubles it.
const CAPACITY: usize = 256;

/// Reads every element of a map and calls `each(key, values)`; `values` has one entry, or for a per-CPU map
/// one for each possible CPU.
///
/// An element that is added or removed meanwhile may or may not be seen, every other exactly once.
///
/// # Errors
/// A key or value size that is not the map's, or the kernel's refusal.
pub fn for_each<K, V>(
    map: BorrowedFd<'_>,
    cpus: usize,
    batched: bool,
    mut each: impl FnMut(K, &[V]),
) -> io::Result<()>
where
    K: FromBytes + IntoBytes + Immutable + Copy,
    V: FromBytes + Immutable + Copy,
{
    let shape = syscall::map_shape(map)?;
    check_shape::<K, V>(shape)?;
    // The kernel pads per-CPU values to eight bytes, which all of ours are multiples of.
    let value_bytes = size_of::<V>() * cpus;
    let mut emit = |keys: &[u8], values: &[u8], elements: usize| -> io::Result<()> {
        for index in 0..elements {
            let key = keys.get(index * size_of::<K>()..(index + 1) * size_of::<K>());
            let value = values.get(index * value_bytes..(index + 1) * value_bytes);
            let (Some(key), Some(value)) = (key, value) else { return Err(mismatch()) };
            let Ok(key) = K::read_from_bytes(key) else { return Err(mismatch()) };
            let value: Vec<V> = value
                .chunks_exact(size_of::<V>())
                .filter_map(|bytes| V::read_from_bytes(bytes).ok())
                .collect();
            each(key, &value);
        }
        Ok(())
    };
    if batched {
        let mut capacity = CAPACITY;
        let mut position = BatchPosition::default();
        loop {
            let mut keys = vec![0; size_of::<K>() * capacity];
            let mut values = vec![0; value_bytes * capacity];
            match syscall::lookup_batch(map, position, &mut keys, &mut values, capacity) {
                Ok(batch) => {
                    emit(&keys, &values, batch.elements)?;
                    match batch.next {
                        Some(next) => position = next,
                        None => return Ok(()),
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => capacity *= 2,
                Err(error) => return Err(error),
            }
        }
    }
    let mut key: Option<Vec<u8>> = None;
    let mut next = vec![0; size_of::<K>()];
    let mut value = vec![0; value_bytes];
    // A key that is removed under the walk sends the kernel back to the start; the bound ends such a walk.
    for _ in 0..u64::from(shape.max_entries) * 2 {
        if !syscall::next_key(map, key.as_deref(), &mut next)? {
            return Ok(());
        }
        if syscall::lookup(map, &next, &mut value)? {
            emit(&next, &value, 1)?;
        }
        key = Some(next.clone());
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the map changes faster than it can be read element by element",
    ))
}

fn check_shape<K, V>(shape: MapShape) -> io::Result<()> {
    if shape.key_bytes as usize == size_of::<K>() && shape.value_bytes as usize == size_of::<V>() {
        Ok(())
    } else {
        Err(mismatch())
    }
}

fn mismatch() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the map's key or value has another size than this agent expects",
    )
}

/// The number of CPUs that per-CPU values have room for: the highest possible CPU number and one.
///
/// # Errors
/// When `/sys/devices/system/cpu/possible` cannot be read or does not say.
pub fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    parse_possible_cpus(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("possible CPUs are `{}`", text.trim()))
    })
}

fn parse_possible_cpus(text: &str) -> Option<usize> {
    let last = text.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_cpus_are_ranges() {
        assert_eq!(parse_possible_cpus("0-1\n"), Some(2));
        assert_eq!(parse_possible_cpus("0\n"), Some(1));
        assert_eq!(parse_possible_cpus("0-3,8-127"), Some(128));
        assert_eq!(parse_possible_cpus(""), None);
    }
}
