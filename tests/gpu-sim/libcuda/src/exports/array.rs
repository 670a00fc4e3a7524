//! Arrays.

use crate::{
    abi::{Array3DDescriptor, ArrayDescriptor, CUarray, CUmipmappedArray, Out, read},
    array::{self, Shape},
    entry::exports,
};

exports! {
    fn cuArrayCreate_v2(array: *mut CUarray, descriptor: *const ArrayDescriptor) = (|| {
        let (out, descriptor) = (Out::new(array)?, read(descriptor)?);
        let ArrayDescriptor { width, height, format, channels } = descriptor;
        out.set(array::create(Shape { width, height, depth: 0, format, channels })?);
        Ok(())
    })();

    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const Array3DDescriptor) = (|| {
        let (out, descriptor) = (Out::new(array)?, read(descriptor)?);
        out.set(array::create(shape(descriptor))?);
        Ok(())
    })();

    fn cuArrayDestroy(array: CUarray) = array::destroy(array);

    fn cuMipmappedArrayCreate(
        array: *mut CUmipmappedArray,
        descriptor: *const Array3DDescriptor,
        _levels: u32,
    ) = (|| {
        let (out, descriptor) = (Out::new(array)?, read(descriptor)?);
        out.set(array::create(shape(descriptor))?);
        Ok(())
    })();

    fn cuMipmappedArrayDestroy(array: CUmipmappedArray) = array::destroy(array);
}

fn shape(descriptor: Array3DDescriptor) -> Shape {
    let Array3DDescriptor { width, height, depth, format, channels, .. } = descriptor;
    Shape { width, height, depth, format, channels }
}
