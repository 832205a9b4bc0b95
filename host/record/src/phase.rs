//! Phases of a case, and kinds of errors that a backend reports there.

use crate::names::names;

names! {
    /// Phases of a worker.
    Phase {
        /// Starting the process and shaking hands.
        Start = "start",
        /// Opening the plugin's library.
        Open = "open",
        /// Asking for devices.
        Devices = "devices",
        /// Loading the model.
        Load = "load",
        /// Reading or making the inputs.
        Inputs = "inputs",
        /// Preparing the model for a batch size and precision; compiling it.
        Prepare = "prepare",
        /// The first run.
        FirstRun = "first-run",
        /// Comparing outputs with the reference's, or making the reference's.
        Check = "check",
        /// Warming up.
        WarmUp = "warm-up",
        /// Searching the load.
        Search = "search",
        /// Measuring.
        Measure = "measure",
        /// Timing the copies and the computation of whole queries apart, and the device.
        Stages = "stages",
        /// Finding out which operators ran where.
        Profile = "profile",
        /// Training epoch by epoch.
        Learn = "learn",
        /// Reading outputs after measuring, and collecting those over the data set, untimed.
        Outputs = "outputs",
        /// Releasing the model and the plugin.
        Unload = "unload",
    }
}

names! {
    /// The kind of error that a backend reports: a code of the native ABI by its name.
    ErrorCode {
        /// A bug in the backend.
        Internal = "internal",
        /// The call, an option or a shape is wrong.
        InvalidArgument = "invalid-argument",
        /// No such file, device or name.
        NotFound = "not-found",
        /// The file is not a model, or is damaged.
        InvalidModel = "invalid-model",
        /// The backend cannot do this.
        Unsupported = "unsupported",
        /// On the host or on the device.
        OutOfMemory = "out-of-memory",
        /// The device or its driver failed.
        Device = "device",
        /// A struct is smaller than its first version.
        Version = "version",
        /// The vendor's runtime, or a part of it, is missing, cannot be loaded or is too old.
        RuntimeMissing = "runtime-missing",
        /// The host asked for an end before the call was done.
        Cancelled = "cancelled",
        /// The backend broke the rules of the ABI. Found by the worker, and never sent by a backend.
        Contract = "contract",
    }
}
