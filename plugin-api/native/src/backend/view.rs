//! Elements in the host's memory, with any strides.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use super::{Error, ErrorCode, Result, Tensor};
use crate::abi;
use crate::types::{DataType, element_count};

const HIGHEST_RANK: usize = 64;

/// A Rust type that is an element type.
///
/// # Safety
///
/// `DTYPE` has the size of `Self`, and every pattern of bits is a valid `Self`.
pub unsafe trait Element: Copy + Default + 'static {
    /// The element type.
    const DTYPE: DataType;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident),+) => {
        // SAFETY: these are plain numbers, and the assertion compares the sizes.
        $(unsafe impl Element for $type {
            const DTYPE: DataType = {
                assert!(DataType::$dtype.size() == size_of::<$type>());
                DataType::$dtype
            };
        })+
    };
}
elements!(
    f64 = F64,
    f32 = F32,
    i64 = I64,
    i32 = I32,
    i16 = I16,
    i8 = I8,
    u64 = U64,
    u32 = U32,
    u16 = U16,
    u8 = U8
);

/// Layout of elements.
#[derive(Debug, Clone, Copy)]
struct Layout<'a> {
    dtype: DataType,
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
    count: usize,
    first: *mut u8,
}

impl<'a> Layout<'a> {
    /// # Safety
    ///
    /// `raw` is null or a view as the ABI describes it, valid during `'a`.
    unsafe fn new(raw: *const abi::View) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorCode::InvalidArgument, what);
        if raw.is_null() || !raw.is_aligned() {
            return Err(invalid("the view is null or misaligned".into()));
        }
        // SAFETY: it is aligned, and the caller guarantees the rest.
        let raw = unsafe { abi::read_sized(raw) }.map_err(super::glue::impossible_size)?;
        let abi::DType { code, bits, lanes } = raw.dtype;
        let dtype = DataType::from_abi(raw.dtype).ok_or_else(|| {
            invalid(format!("the view's element type is {code}, {bits} bits, {lanes} lanes"))
        })?;
        let rank = raw.rank as usize;
        if rank > HIGHEST_RANK || (rank > 0 && raw.shape.is_null()) {
            return Err(invalid(format!("the view has {rank} axes, or no shape for them")));
        }
        let axes = |pointer: *const i64| -> &'a [i64] {
            // SAFETY: not null for a rank above 0, and as long as the rank.
            if rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, rank) } }
        };
        let shape = axes(raw.shape);
        let count = element_count(shape)
            .filter(|count| {
                count.checked_mul(dtype.size()).is_some_and(|b| b <= isize::MAX as usize)
            })
            .ok_or_else(|| invalid(format!("the view's shape is {shape:?}")))?;
        if count > 0 && raw.data.is_null() {
            return Err(invalid("the view's data is null".into()));
        }
        let strides = (!raw.strides.is_null()).then(|| axes(raw.strides));
        let first = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
        Ok(Self { dtype, shape, strides, count, first })
    }

    /// Calls `visit` with each stretch of consecutive elements, in C order: its first byte and its number of
    /// elements.
    fn stretches(&self, mut visit: impl FnMut(*mut u8, usize)) {
        if self.count == 0 {
            return;
        }
        let strides = match self.strides {
            Some(strides) if !is_compact(self.shape, strides) => strides,
            _ => return visit(self.first, self.count),
        };
        let size = self.dtype.size() as isize;
        let rank = self.shape.len();
        // The innermost axis is visited whole if its elements are adjacent.
        let (outer, stretch) = match (self.shape[rank - 1], strides[rank - 1]) {
            (length, 1) => (rank - 1, length as usize),
            _ => (rank, 1),
        };
        let mut index = vec![0_i64; outer];
        loop {
            let offset: i64 = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            visit(self.first.wrapping_offset(offset as isize * size), stretch);
            let Some(axis) = (0..outer).rev().find(|axis| index[*axis] + 1 < self.shape[*axis])
            else {
                return;
            };
            index[axis] += 1;
            index[axis + 1..].fill(0);
        }
    }

    fn is_compact(&self) -> bool {
        self.strides.is_none_or(|strides| is_compact(self.shape, strides))
    }

    /// Refuses texts, whose bytes are not in the elements.
    fn expect_numbers(&self) -> Result<()> {
        if !self.dtype.is_text() {
            return Ok(());
        }
        Err(Error::new(ErrorCode::Unsupported, "elements are texts, expected numbers"))
    }

    fn expect(&self, dtype: DataType) -> Result<()> {
        if self.dtype == dtype {
            return Ok(());
        }
        let message = format!("elements are {}, expected {dtype}", self.dtype);
        Err(Error::new(ErrorCode::InvalidArgument, message))
    }
}

/// Returns whether elements lie one after another in C order. The stride of an axis of size 1 is
/// never used.
fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&axis, &stride)| {
        let fits = axis == 1 || stride == expected;
        expected *= axis;
        fits
    })
}

/// Elements that the host lends for reading.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    layout: Layout<'a>,
}

impl<'a> View<'a> {
    /// Checks what can be checked of a view.
    ///
    /// # Errors
    ///
    /// If `raw` is not a valid view.
    ///
    /// # Safety
    ///
    /// `raw` is null or a view as the ABI describes it, whose elements may be read during `'a`.
    pub unsafe fn new(raw: *const abi::View) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        Ok(Self { layout: unsafe { Layout::new(raw) }? })
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.layout.dtype
    }

    /// Returns the size of each axis.
    #[must_use]
    pub fn shape(&self) -> &'a [i64] {
        self.layout.shape
    }

    /// Returns the elements in C order.
    ///
    /// # Errors
    ///
    /// If they are of another type, or there is not enough memory.
    pub fn values<T: Element>(&self) -> Result<Vec<T>> {
        self.layout.expect(T::DTYPE)?;
        let mut values: Vec<T> = self.room(self.layout.count)?;
        // SAFETY: `T` has the size of the element type, and any bits are a valid `T`.
        unsafe {
            self.copy_to(values.as_mut_ptr().cast());
            values.set_len(self.layout.count);
        }
        Ok(values)
    }

    /// Returns the texts in C order, if elements are texts.
    ///
    /// # Errors
    ///
    /// If elements are not texts, or one is not UTF-8.
    pub fn texts(&self) -> Result<Vec<&'a str>> {
        self.layout.expect(DataType::STRING)?;
        let mut texts = self.room(self.layout.count)?;
        let mut wrong = None;
        self.layout.stretches(|source, length| {
            for at in 0..length {
                // SAFETY: the view's elements are readable during `'a`, and so are the texts that they point to. They
                // need not be aligned.
                let text = unsafe {
                    let element = source.cast::<abi::String>().wrapping_add(at).read_unaligned();
                    super::glue::text(element, "an element")
                };
                match text {
                    Ok(text) => texts.push(text),
                    Err(error) => wrong = Some(error),
                }
            }
        });
        wrong.map_or(Ok(texts), Err)
    }

    /// Returns the elements in C order, as bytes.
    ///
    /// # Errors
    ///
    /// If memory runs out, or elements are texts.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.layout.expect_numbers()?;
        let length = self.layout.count * self.layout.dtype.size();
        let mut bytes: Vec<u8> = self.room(length)?;
        // SAFETY: there is room for all bytes, and all are written.
        unsafe {
            self.copy_to(bytes.as_mut_ptr());
            bytes.set_len(length);
        }
        Ok(bytes)
    }

    /// Reserves memory for a copy; a lack of memory must not end the process.
    fn room<T>(&self, count: usize) -> Result<Vec<T>> {
        let mut room = Vec::new();
        room.try_reserve_exact(count).map_err(|_| {
            let (dtype, shape) = (self.layout.dtype, self.layout.shape);
            let message = format!("there is no memory for a copy of {dtype} {shape:?}");
            Error::new(ErrorCode::OutOfMemory, message)
        })?;
        Ok(room)
    }

    /// Returns the elements in C order as bytes, borrowed if they are contiguous.
    ///
    /// # Errors
    ///
    /// If they are not contiguous and memory for a copy runs out, or elements are texts.
    pub fn contiguous(&self) -> Result<Cow<'a, [u8]>> {
        self.layout.expect_numbers()?;
        if self.layout.count > 0 && self.layout.is_compact() {
            let length = self.layout.count * self.layout.dtype.size();
            // SAFETY: the elements may be read during `'a`, and lie one after another.
            return Ok(unsafe { std::slice::from_raw_parts(self.layout.first, length) }.into());
        }
        Ok(self.bytes()?.into())
    }

    /// # Safety
    ///
    /// `target` has room for all elements.
    unsafe fn copy_to(&self, target: *mut u8) {
        let mut at = 0;
        self.layout.stretches(|source, length| {
            let bytes = length * self.layout.dtype.size();
            // SAFETY: the view's elements are readable, and the target has room for all of them.
            unsafe { ptr::copy_nonoverlapping(source.cast_const(), target.add(at), bytes) };
            at += bytes;
        });
    }
}

/// Room for elements that the host lends for writing.
#[derive(Debug)]
pub struct ViewMut<'a> {
    layout: Layout<'a>,
    exclusive: PhantomData<&'a mut u8>,
}

impl<'a> ViewMut<'a> {
    /// Checks what can be checked of a view.
    ///
    /// # Errors
    ///
    /// If `raw` is not a valid view.
    ///
    /// # Safety
    ///
    /// `raw` is null or a view as the ABI describes it, whose elements may be written during `'a` and are
    /// not used elsewhere.
    pub unsafe fn new(raw: *const abi::View) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        Ok(Self { layout: unsafe { Layout::new(raw) }?, exclusive: PhantomData })
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.layout.dtype
    }

    /// Returns the size of each axis.
    #[must_use]
    pub fn shape(&self) -> &'a [i64] {
        self.layout.shape
    }

    /// Returns the memory itself as bytes if it is contiguous in C order. `None` for texts.
    pub fn contiguous(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        if self.layout.count == 0 || !self.layout.is_compact() || self.layout.dtype.is_text() {
            return None;
        }
        let length = self.layout.count * self.layout.dtype.size();
        // SAFETY: access to the elements is exclusive, and they lie one after another.
        Some(unsafe { std::slice::from_raw_parts_mut(self.layout.first.cast(), length) })
    }

    /// Writes elements that are in C order.
    ///
    /// # Errors
    ///
    /// If type or number differs.
    pub fn write<T: Element>(&mut self, values: &[T]) -> Result<()> {
        self.layout.expect(T::DTYPE)?;
        // SAFETY: an element is as many initialised bytes as its type says.
        let bytes = unsafe {
            std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
        };
        self.write_bytes(bytes)
    }

    /// Writes the addresses of texts in C order. The caller keeps them valid as long as the host may read them.
    pub(super) fn write_texts(&mut self, texts: &[String]) -> Result<()> {
        self.layout.expect(DataType::STRING)?;
        let (given, wanted) = (texts.len(), self.layout.count);
        if given != wanted {
            let message = format!("{given} texts for a view of {wanted}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let mut texts = texts.iter();
        self.layout.stretches(|target, length| {
            for (at, text) in texts.by_ref().take(length).enumerate() {
                // SAFETY: the view's elements are writable by us alone, and need not be aligned.
                unsafe {
                    target
                        .cast::<abi::String>()
                        .wrapping_add(at)
                        .write_unaligned(abi::String::borrow(text));
                }
            }
        });
        Ok(())
    }

    /// Writes elements that are in C order, as bytes.
    ///
    /// # Errors
    ///
    /// If the number of bytes does not match, or elements are texts.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.layout.expect_numbers()?;
        let size = self.layout.dtype.size();
        if bytes.len() != self.layout.count * size {
            let (given, wanted) = (bytes.len(), self.layout.count * size);
            let message = format!("{given} bytes for a view of {wanted}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let mut at = 0;
        self.layout.stretches(|target, length| {
            // SAFETY: the view's elements are writable by us alone, and `bytes` has all of them.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().add(at), target, length * size) };
            at += length * size;
        });
        Ok(())
    }
}

/// A tensor in the host's memory, for backends whose device that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTensor<T> {
    /// Returns the size of each axis.
    pub shape: Vec<i64>,
    /// The elements in C order.
    pub values: Vec<T>,
}

impl<T: Element> HostTensor<T> {
    /// Copies a view.
    ///
    /// # Errors
    ///
    /// If the elements are of another type.
    pub fn new(view: &View<'_>) -> Result<Self> {
        Ok(Self { shape: view.shape().to_vec(), values: view.values()? })
    }
}

impl<T: Element> Tensor for HostTensor<T> {
    fn dtype(&self) -> DataType {
        T::DTYPE
    }

    fn shape(&self) -> &[i64] {
        &self.shape
    }

    fn read(&self, into: &mut ViewMut<'_>) -> Result<()> {
        into.write(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(shape: &[i64], strides: Option<&[i64]>, data: *const u16, offset: u64) -> abi::View {
        abi::View {
            struct_size: size_of::<abi::View>(),
            data: data.cast_mut().cast(),
            dtype: DataType::U16.to_abi(),
            rank: shape.len() as u32,
            shape: shape.as_ptr(),
            strides: strides.map_or(ptr::null(), <[i64]>::as_ptr),
            byte_offset: offset,
        }
    }

    /// Returns the elements' places by the definition of strides, in C order.
    fn places(shape: &[i64], strides: &[i64]) -> Vec<i64> {
        let Some((axis, shape)) = shape.split_first() else { return vec![0] };
        let inner = places(shape, &strides[1..]);
        (0..*axis).flat_map(|at| inner.iter().map(move |place| place + at * strides[0])).collect()
    }

    proptest! {
        #[test]
        fn strided_elements_are_read_and_written_where_they_are(
            axes in prop::collection::vec((0_i64..4, -9_i64..9), 0..4),
        ) {
            let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
            let mut memory: Vec<u16> = (0..200).collect();
            let places: Vec<usize> =
                places(&shape, &strides).iter().map(|place| (place + 100) as usize).collect();
            let raw = raw(&shape, Some(&strides), memory.as_ptr(), 200);
            // SAFETY: all places are within 81 elements of the hundredth.
            let view = unsafe { View::new(&raw const raw) }.expect("a valid view");
            let expected: Vec<u16> = places.iter().map(|place| *place as u16).collect();
            prop_assert_eq!(view.values::<u16>().expect("16-bit elements"), expected.clone());
            let bytes = view.bytes().expect("memory");
            prop_assert_eq!(view.contiguous().expect("memory").into_owned(), bytes);

            let mut distinct = places.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() == places.len() {
                let written: Vec<u16> = expected.iter().map(|value| value + 1000).collect();
                let mut target = raw;
                target.data = memory.as_mut_ptr().cast();
                // SAFETY: as above, and nothing else uses the memory.
                unsafe { ViewMut::new(&raw const target) }
                    .and_then(|mut view| view.write(&written))
                    .expect("as many elements");
                for (place, value) in (0_u16..).zip(&memory) {
                    let touched = distinct.contains(&usize::from(place));
                    prop_assert_eq!(*value, if touched { place + 1000 } else { place });
                }
            }
        }
    }

    #[test]
    fn a_copy_that_is_too_large_is_an_error() {
        let element = [7_u16];
        // 256 TiB, all of them the same element.
        let raw = raw(&[1 << 47], Some(&[0]), element.as_ptr(), 0);
        // SAFETY: every element is the one that is there.
        let view = unsafe { View::new(&raw const raw) }.expect("a valid view");
        for error in [
            view.values::<u16>().expect_err("no machine has so much"),
            view.bytes().expect_err("no machine has so much"),
            view.contiguous().expect_err("no machine has so much"),
        ] {
            assert_eq!(error.code, ErrorCode::OutOfMemory);
            assert!(error.message.ends_with("a copy of uint16 [140737488355328]"), "{error}");
        }
    }

    #[test]
    fn impossible_views_are_refused() {
        let memory = [0_u16; 4];
        let good = raw(&[4], None, memory.as_ptr(), 0);
        let mut small = good;
        small.struct_size -= 8;
        let mut huge = good;
        huge.struct_size = usize::MAX;
        let mut typeless = good;
        typeless.dtype.bits = 0;
        let mut shapeless = good;
        shapeless.shape = ptr::null();
        let cases = [
            (small, "bytes; ABI 1.0 has"),
            (huge, "bytes; at most 65536"),
            (typeless, "element type is 1, 0 bits"),
            (shapeless, "no shape"),
            (raw(&[-1], None, memory.as_ptr(), 0), "[-1]"),
            (raw(&[i64::MAX, 2], None, memory.as_ptr(), 0), "shape is"),
            (raw(&[4], None, ptr::null(), 0), "data is null"),
        ];
        for (view, message) in cases {
            // SAFETY: the views are wrong in ways that are found before memory is touched.
            let error = unsafe { View::new(&raw const view) }.expect_err(message);
            assert!(error.message.contains(message), "{error}");
        }
        // SAFETY: null is refused.
        unsafe { View::new(ptr::null()) }.expect_err("null");
        // SAFETY: the view is valid.
        let view = unsafe { View::new(&raw const good) }.expect("valid");
        view.values::<f32>().expect_err("another type");
    }
}
