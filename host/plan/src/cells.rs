//! The matrix as arithmetic: cells are enumerated one by one and never stored.
//!
//! A block is a product of axes. The matrix itself is the first block and each `include` is one
//! more. A cell is left out if an exclusion matches it, or if an earlier block already contains it.
//! Both tests use bit sets over the values of each axis, so memory grows with the axes and not with
//! the cells.

/// Number of axes.
pub(crate) const AXES: usize = 7;

/// A cell: on each axis, the number of a value.
pub(crate) type Cell = [u32; AXES];

/// A set of values of one axis.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn contains(&self, value: u32) -> bool {
        self.0.get(value as usize / 64).is_some_and(|word| word >> (value % 64) & 1 == 1)
    }

    /// Adds a value; whether it was not there.
    fn insert(&mut self, value: u32) -> bool {
        let word = value as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let bit = 1 << (value % 64);
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

impl FromIterator<u32> for Bits {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut bits = Self::default();
        for value in values {
            bits.insert(value);
        }
        bits
    }
}

/// The values of one axis of a block, in order, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axis {
    values: Vec<u32>,
    members: Bits,
}

impl FromIterator<u32> for Axis {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut axis = Self::default();
        for value in values {
            if axis.members.insert(value) {
                axis.values.push(value);
            }
        }
        axis
    }
}

/// A product of axes. The last axis turns fastest.
#[derive(Debug, Clone)]
pub(crate) struct Block(pub(crate) [Axis; AXES]);

impl Block {
    fn contains(&self, cell: &Cell) -> bool {
        self.0.iter().zip(cell).all(|(axis, value)| axis.members.contains(*value))
    }

    fn size(&self) -> u128 {
        self.0
            .iter()
            .fold(1, |product: u128, axis| product.saturating_mul(axis.values.len() as u128))
    }
}

/// Matches the cells whose value on each axis is in the set for that axis; an axis without a set
/// matches every value.
#[derive(Debug, Clone)]
pub(crate) struct Exclusion(pub(crate) [Option<Bits>; AXES]);

impl Exclusion {
    fn matches(&self, cell: &Cell) -> bool {
        self.0
            .iter()
            .zip(cell)
            .all(|(set, value)| set.as_ref().is_none_or(|set| set.contains(*value)))
    }
}

/// All cells of a matrix.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    pub(crate) blocks: Vec<Block>,
    pub(crate) exclusions: Vec<Exclusion>,
}

impl Cells {
    /// Returns the number of cells to enumerate, before exclusions and repetitions.
    pub(crate) fn size(&self) -> u128 {
        self.blocks.iter().fold(0, |sum: u128, block| sum.saturating_add(block.size()))
    }

    /// Returns whether a cell is among them.
    pub(crate) fn contains(&self, cell: &Cell) -> bool {
        self.blocks.iter().any(|block| block.contains(cell))
            && !self.exclusions.iter().any(|other| other.matches(cell))
    }

    /// Returns the cells, each once, in a fixed order: the matrix first, then each `include`.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        self.blocks.iter().enumerate().flat_map(move |(number, block)| {
            let earlier = &self.blocks[..number];
            Odometer::new(block)
                .filter(move |cell| !earlier.iter().any(|block| block.contains(cell)))
                .filter(move |cell| !self.exclusions.iter().any(|other| other.matches(cell)))
        })
    }
}

/// Counts through a block.
struct Odometer<'a> {
    block: &'a Block,
    next: Option<[usize; AXES]>,
}

impl<'a> Odometer<'a> {
    fn new(block: &'a Block) -> Self {
        Self { block, next: (block.size() > 0).then_some([0; AXES]) }
    }
}

impl Iterator for Odometer<'_> {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        let position = self.next?;
        let cell = std::array::from_fn(|axis| self.block.0[axis].values[position[axis]]);
        let mut following = position;
        self.next = (0..AXES).rev().find_map(|axis| {
            following[axis] += 1;
            if following[axis] < self.block.0[axis].values.len() {
                return Some(following);
            }
            following[axis] = 0;
            None
        });
        Some(cell)
    }
}
