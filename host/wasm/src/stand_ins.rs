/*!
Stand-ins for the clock and for random numbers.

Interpreters of Python and JavaScript ask for both when they start, whether or not the plugin does. A call that traps
there would exclude these languages, and true answers would make a plugin's results differ from run to run. So both
exist, and are the same in every call: each store begins with the clock at the same instant and with the same sequence.

The clock stands still, and only a sleep moves it, by as long as it lasts, without waiting. A clock that never moves
would keep an event loop from ever reaching its next timer, until the call's fuel is used up.
*/

/// The monotonic clock at the beginning of a call, in nanoseconds. It is not zero, which some programs take for unset.
const START: u64 = 1_000_000_000;

/// The wall clock at the beginning of a call, in seconds since 1970: the start of 1980, the earliest date that archives
/// such as Python's can have.
const WALL_START: u64 = 315_532_800;

/// Seed of all random numbers: `tareseed` in ASCII.
const SEED: u64 = 0x7461_7265_7365_6564;

/// A clock that stands still between sleeps.
#[derive(Debug)]
pub(crate) struct Clock {
    nanoseconds: u64,
    is_told: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { nanoseconds: START, is_told: false }
    }
}

impl Clock {
    /// Returns the monotonic clock, in nanoseconds.
    pub(crate) fn now(&mut self, plugin: &str) -> u64 {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::debug!(plugin, "reads the clock, which stands still in the sandbox");
        }
        self.nanoseconds
    }

    /// Returns the wall clock: seconds since 1970, and nanoseconds.
    pub(crate) fn wall(&mut self, plugin: &str) -> (u64, u32) {
        let since = self.now(plugin) - START;
        let nanoseconds = u32::try_from(since % 1_000_000_000).expect("less than a second");
        (WALL_START + since / 1_000_000_000, nanoseconds)
    }

    /// Returns the instant that is this duration from now.
    pub(crate) fn after(&self, nanoseconds: u64) -> u64 {
        self.nanoseconds.saturating_add(nanoseconds)
    }

    /// Returns whether an instant has been reached.
    pub(crate) fn has_reached(&self, instant: u64) -> bool {
        instant <= self.nanoseconds
    }

    /// Moves the clock to an instant, if that lies ahead.
    pub(crate) fn sleep_until(&mut self, instant: u64) {
        self.nanoseconds = self.nanoseconds.max(instant);
    }
}

/// Limit on the streams and pollables that a guest has at a time. Each costs the host a few bytes.
pub(crate) const HANDLES: usize = 10_000;

/// Streams and pollables of a guest, by their indices, each with the instant at which it is ready.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    ready_at: Vec<u64>,
    free: Vec<u32>,
}

impl Handles {
    /// Returns the index of a new one; `None` if there are too many.
    pub(crate) fn insert(&mut self, ready_at: u64) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.ready_at[index as usize] = ready_at;
            return Some(index);
        }
        let index =
            u32::try_from(self.ready_at.len()).ok().filter(|_| self.ready_at.len() < HANDLES)?;
        self.ready_at.push(ready_at);
        Some(index)
    }

    /// Forgets one that the guest has dropped.
    pub(crate) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(crate) fn ready_at(&self, index: u32) -> Option<u64> {
        self.ready_at.get(index as usize).copied()
    }
}

/// The same sequence of numbers in each call: SplitMix64, by Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators" (2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(SEED)
    }
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleep_moves_the_clock() {
        let mut clock = Clock::default();
        assert_eq!((clock.now(""), clock.now("")), (START, START));
        assert_eq!(clock.wall(""), (WALL_START, 0));
        let instant = clock.after(2_500_000_000);
        assert!(!clock.has_reached(instant));
        clock.sleep_until(instant);
        clock.sleep_until(START);
        assert!(clock.has_reached(instant));
        assert_eq!(clock.wall(""), (WALL_START + 2, 500_000_000));
        clock.sleep_until(clock.after(u64::MAX));
        assert_eq!(clock.now(""), u64::MAX);
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        // The first number of SplitMix64 with the seed 1234567, as its reference implementation gives it.
        assert_eq!(Random(1_234_567).next(), 6_457_827_717_110_365_317);
        let bytes = Random::default().bytes(11);
        assert_eq!(bytes[..8], Random::default().next().to_le_bytes());
        assert_eq!(bytes, Random::default().bytes(11));
    }
}
