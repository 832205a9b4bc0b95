/*!
Reading a few of the sorted values without sorting them.

Values are counted in buckets, and only buckets that hold a wanted rank are examined again. The
first count uses the position of the highest set bit and the bits after it, so the buckets have
equal ratios: one outlier a thousand times the rest does not squeeze the rest into one bucket, as it
would with buckets of equal width. Deeper counts divide a bucket into equal widths, until it has one
value or few enough to sort. The input is only read, in a fixed number of passes for each level, and
its order does not matter, so there is no bad case as for quickselect.
*/

/// A number that can be ordered and counted: `u64` or `f64`.
#[doc(hidden)]
pub trait Keyed: Copy + PartialOrd + sealed::Sealed {
    /// Returns an integer with the same order as the values.
    fn key(self) -> u64;
    /// Returns the value of a key.
    fn from_key(key: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for f64 {}
}

impl Keyed for u64 {
    fn key(self) -> u64 {
        self
    }

    fn from_key(key: u64) -> Self {
        key
    }
}

impl Keyed for f64 {
    /// Orders as IEEE 754 `totalOrder`: −0 before +0, NaN at the ends.
    fn key(self) -> u64 {
        let bits = self.to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }

    fn from_key(key: u64) -> Self {
        Self::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
    }
}

/// Values that are taken at a time, so that a loop's own cost, to which the sandbox adds its
/// counting of instructions, is shared by them.
pub(crate) const STRIDE: usize = 8;

/// Bits after the highest set one that choose the first bucket: 256 buckets for each doubling.
const RATIO_BITS: u32 = 8;
/// A power of two above `ratio_bucket(u64::MAX)`.
const RATIO_BUCKETS: usize = 1 << 14;
/// Bits of a key that a deeper count divides a bucket by.
const WIDTH_BITS: u32 = 12;
const WIDTH_BUCKETS: usize = 1 << WIDTH_BITS;
/// A bucket with no more values than this is sorted.
const FEW: usize = 256;

/// Returns the values at `ranks`, each from 1, as if `values` were sorted in ascending order; in
/// the order of the given ranks.
///
/// # Panics
///
/// If a rank is 0 or above the number of values.
pub fn order_statistics<T: Keyed>(values: &[T], ranks: &[usize]) -> Vec<T> {
    for &rank in ranks {
        assert!(
            (1..=values.len()).contains(&rank),
            "rank {rank} among {} values does not exist",
            values.len()
        );
    }
    let mut wanted: Vec<WantedRank> =
        ranks.iter().enumerate().map(|(position, &rank)| WantedRank { rank, position }).collect();
    wanted.sort_unstable_by_key(|wanted| wanted.rank);
    let mut found = vec![0; ranks.len()];
    if values.len() <= FEW {
        sort_and_read(values.iter().map(|value| value.key()).collect(), &wanted, &mut found);
    } else if !wanted.is_empty() {
        Buckets::<RATIO_BUCKETS>::count(values, ratio_bucket).descend(
            values,
            ratio_bucket,
            ratio_bounds,
            &wanted,
            &mut found,
        );
    }
    found.into_iter().map(T::from_key).collect()
}

/// A wanted rank, counted from 1 within the current values, and the place for its value.
#[derive(Clone, Copy)]
struct WantedRank {
    rank: usize,
    position: usize,
}

fn sort_and_read(mut keys: Vec<u64>, wanted: &[WantedRank], found: &mut [u64]) {
    keys.sort_unstable();
    for wanted in wanted {
        found[wanted.position] = keys[wanted.rank - 1];
    }
}

/// Returns a bucket: exact below 2⁸; above, by the position of the highest bit and the eight bits
/// after it.
fn ratio_bucket(key: u64) -> usize {
    let shift = (63 - RATIO_BITS).saturating_sub((key | 1).leading_zeros());
    ((shift as usize) << RATIO_BITS) + (key >> shift) as usize
}

/// Returns the smallest and largest key of a bucket.
fn ratio_bounds(bucket: usize) -> (u64, u64) {
    // Above the exact part a bucket's number is `(shift << 8) + mantissa` with a mantissa from
    // 2⁸ to 2⁹ − 1.
    let shift = (bucket >> RATIO_BITS).saturating_sub(1) as u32;
    let mantissa = (bucket - ((shift as usize) << RATIO_BITS)) as u64;
    let low = mantissa << shift;
    (low, low + ((1 << shift) - 1))
}

/// Counts of values in `N` buckets, a power of two. Bucket numbers are below `N`; masking them says
/// so to the compiler.
struct Buckets<const N: usize> {
    counts: Box<[usize; N]>,
}

impl<const N: usize> Buckets<N> {
    fn count<T: Keyed>(values: &[T], bucket_of: impl Fn(u64) -> usize) -> Self {
        // Two tables take turns: neighbouring values often fall in one bucket, and an increment
        // would wait for the one before it.
        let mut even = table::<usize, N>(0);
        let mut odd = table::<usize, N>(0);
        let (strides, rest) = values.as_chunks::<STRIDE>();
        for stride in strides {
            for pair in stride.as_chunks::<2>().0 {
                even[bucket_of(pair[0].key()) & (N - 1)] += 1;
                odd[bucket_of(pair[1].key()) & (N - 1)] += 1;
            }
        }
        for value in rest {
            even[bucket_of(value.key()) & (N - 1)] += 1;
        }
        for (even, odd) in even.iter_mut().zip(&*odd) {
            *even += odd;
        }
        Self { counts: even }
    }

    /// Finds the bucket of each wanted rank, and looks into those that are not settled by it.
    fn descend<T: Keyed>(
        &self,
        values: &[T],
        bucket_of: impl Fn(u64) -> usize,
        bounds: impl Fn(usize) -> (u64, u64),
        wanted: &[WantedRank],
        found: &mut [u64],
    ) {
        const NONE: u16 = u16::MAX;
        let mut insides: Vec<Inside> = Vec::new();
        let mut inside_of = table::<u16, N>(NONE);
        let mut bucket = 0;
        let mut before = 0;
        for wanted in wanted {
            while before + self.counts[bucket] < wanted.rank {
                before += self.counts[bucket];
                bucket += 1;
            }
            let (low, high) = bounds(bucket);
            if low == high {
                found[wanted.position] = low;
                continue;
            }
            if inside_of[bucket] == NONE {
                inside_of[bucket] = insides.len() as u16;
                let keys = Vec::with_capacity(self.counts[bucket]);
                insides.push(Inside { keys, low, high, wanted: Vec::new() });
            }
            let inside = &mut insides[usize::from(inside_of[bucket])];
            inside.wanted.push(WantedRank { rank: wanted.rank - before, ..*wanted });
        }
        if insides.is_empty() {
            return;
        }
        let mut sort_in = |value: &T| {
            let key = value.key();
            let inside = inside_of[bucket_of(key) & (N - 1)];
            if inside != NONE {
                insides[usize::from(inside)].keys.push(key);
            }
        };
        let (strides, rest) = values.as_chunks::<STRIDE>();
        for stride in strides {
            stride.iter().for_each(&mut sort_in);
        }
        rest.iter().for_each(&mut sort_in);
        for inside in insides {
            inside.resolve(found);
        }
    }
}

/// Allocates a table on the heap, because it is too large for a guest's stack.
fn table<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(table) => table,
        Err(_) => unreachable!("it was made with as many"),
    }
}

/// The values of one bucket.
struct Inside {
    keys: Vec<u64>,
    low: u64,
    high: u64,
    wanted: Vec<WantedRank>,
}

impl Inside {
    fn resolve(self, found: &mut [u64]) {
        if self.keys.len() <= FEW {
            return sort_and_read(self.keys, &self.wanted, found);
        }
        let Self { keys, low, high, wanted } = self;
        let shift = (64 - (high - low).leading_zeros()).saturating_sub(WIDTH_BITS);
        let bucket_of = |key: u64| ((key - low) >> shift) as usize;
        let bounds = |bucket: usize| {
            let low = low + ((bucket as u64) << shift);
            (low, low.saturating_add((1 << shift) - 1).min(high))
        };
        Buckets::<WIDTH_BUCKETS>::count(&keys, bucket_of)
            .descend(&keys, bucket_of, bounds, &wanted, found);
    }
}
