//! Collects the values of one sample: what fails is absent, and the causes are counted.

use std::collections::BTreeMap;

use nvml_wrapper::error::NvmlError;

use super::classify;
use crate::device::error::{DeviceError, ErrorClass, Reaction};

/// The outcome of a series of calls to one GPU.
#[derive(Debug, Default)]
pub(super) struct Gather {
    succeeded: bool,
    /// An error after which the other calls of the series would fail too; they are not made.
    fatal: Option<DeviceError>,
    /// The first error that was not "this GPU does not have it".
    first: Option<DeviceError>,
    errors: BTreeMap<ErrorClass, u32>,
}

impl Gather {
    /// Makes one call. `None` where it failed, or an earlier one was fatal.
    pub(super) fn get<T>(
        &mut self,
        name: &'static str,
        call: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.fatal.is_some() {
            return None;
        }
        let error = match call() {
            Ok(value) => {
                self.succeeded = true;
                return Some(value);
            }
            Err(error) => classify::failed(name)(error),
        };
        if error.class == ErrorClass::NotSupported {
            return None;
        }
        match error.class.reaction() {
            Reaction::Reinitialise | Reaction::LoseDevice => self.fatal = Some(error),
            Reaction::OmitValue | Reaction::Retry | Reaction::SuspectAccess => {
                *self.errors.entry(error.class).or_default() += 1;
                self.first.get_or_insert(error);
            }
        }
        None
    }

    /// The causes of absent values, unless the series as a whole failed.
    ///
    /// `name` is the call to name where every call said that the GPU does not have the value: a GPU that has nothing at
    /// all is one whose handle is no longer valid.
    pub(super) fn finish(self, name: &'static str) -> Result<BTreeMap<ErrorClass, u32>, DeviceError> {
        match self {
            Self { fatal: Some(error), .. } => Err(error),
            Self { succeeded: true, errors, .. } => Ok(errors),
            Self { first, .. } => Err(first.unwrap_or_else(|| DeviceError::bare(name, ErrorClass::Unknown))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_the_gpu_lacks_is_absent_and_not_counted() {
        let mut gather = Gather::default();
        assert_eq!(gather.get("fan", || Err::<u32, _>(NvmlError::NotSupported)), None);
        assert_eq!(gather.get("power", || Ok(7)), Some(7));
        assert_eq!(gather.finish("read"), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_single_failure_costs_one_value() {
        let mut gather = Gather::default();
        assert_eq!(gather.get("power", || Err::<u32, _>(NvmlError::Unknown)), None);
        assert_eq!(gather.get("clock", || Ok(7)), Some(7));
        assert_eq!(gather.finish("read"), Ok(BTreeMap::from([(ErrorClass::Unknown, 1)])));
    }

    #[test]
    fn a_lost_gpu_is_not_asked_further() {
        let mut gather = Gather::default();
        assert_eq!(gather.get("clock", || Ok(7)), Some(7));
        assert_eq!(gather.get("power", || Err::<u32, _>(NvmlError::GpuLost)), None);
        assert_eq!(gather.get("fan", || -> Result<u32, NvmlError> { unreachable!("the GPU is lost") }), None);
        assert_eq!(gather.finish("read"), Err(DeviceError::bare("power", ErrorClass::DeviceLost)));
    }

    #[test]
    fn nothing_at_all_is_an_error_with_the_first_cause() {
        let mut gather = Gather::default();
        gather.get("fan", || Err::<u32, _>(NvmlError::NotSupported));
        gather.get("power", || Err::<u32, _>(NvmlError::NoPermission));
        gather.get("clock", || Err::<u32, _>(NvmlError::Unknown));
        assert_eq!(gather.finish("read"), Err(DeviceError::bare("power", ErrorClass::Denied)));
    }

    #[test]
    fn a_handle_that_answers_nothing_is_not_taken_for_a_gpu_without_values() {
        let mut gather = Gather::default();
        gather.get("power", || Err::<u32, _>(NvmlError::InvalidArg));
        assert_eq!(gather.finish("read"), Err(DeviceError::bare("read", ErrorClass::Unknown)));
    }
}
