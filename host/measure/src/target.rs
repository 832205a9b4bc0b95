//! The timed target.

/// The timed target.
pub trait Target {
    /// Error of the target.
    type Error;

    /// Runs one batch to its end: when this returns, the device is done.
    ///
    /// # Errors
    ///
    /// Returns the target's error, which ends the loop.
    fn run(&mut self) -> Result<(), Self::Error>;

    /// Starts one batch; it may still be under way when this returns. A target that cannot do
    /// that runs the batch.
    ///
    /// # Errors
    ///
    /// As for [`Target::run`].
    fn enqueue(&mut self) -> Result<(), Self::Error> {
        self.run()
    }

    /// Waits until every batch that was started is done.
    ///
    /// # Errors
    ///
    /// As for [`Target::run`].
    fn synchronise(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called once after the last batch, on the thread that ran it, when nothing is timed any more.
    fn end(&mut self) {}

    /// Does all work of a thread that has a target of its own, from making the target to its end.
    fn on_thread<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

impl<T: Target> Target for &mut T {
    type Error = T::Error;

    #[inline]
    fn run(&mut self) -> Result<(), T::Error> {
        T::run(self)
    }

    #[inline]
    fn enqueue(&mut self) -> Result<(), T::Error> {
        T::enqueue(self)
    }

    fn synchronise(&mut self) -> Result<(), T::Error> {
        T::synchronise(self)
    }

    fn end(&mut self) {
        T::end(self);
    }

    fn on_thread<R>(work: impl FnOnce() -> R) -> R {
        T::on_thread(work)
    }
}

/// Starts batches back to back and waits for them together.
pub(crate) fn run_burst<T: Target>(target: &mut T, batches: u64) -> Result<(), T::Error> {
    for _ in 0..batches {
        target.enqueue()?;
    }
    target.synchronise()
}
