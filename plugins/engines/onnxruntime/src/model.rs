//! A model's file, and its sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onnx_file::OnnxFile;
use ort::logging::LogLevel;
use ort::session::Session;
use plugin_api::backend::{
    Dimension, Error, ErrorCode, LoadRequest, Model, ModelInfo, PrepareRequest, Result, View,
};

use crate::error::{Operation, convert, fell_back};
use crate::options::Common;
use crate::provider::ProviderOptions;
use crate::{Accelerator, Cpu, Library, OrtSession, OrtTensor, Provider, log};

/// A loaded model.
pub struct OrtModel {
    source: Arc<Source>,
    /// The shared session, if the provider creates none for particular shapes.
    session: Option<Arc<CreatedSession>>,
}

/// Everything needed to create sessions.
pub(crate) struct Source {
    pub(crate) library: &'static Library,
    path: PathBuf,
    precision: &'static str,
    info: ModelInfo,
    pub(crate) provider: Box<dyn Provider>,
    accelerator: Option<Arc<dyn Accelerator>>,
    common: Common,
    threads: u32,
}

/// A session of ONNX Runtime, with its parts.
pub(crate) struct CreatedSession {
    /// Dropped before the objects that it uses.
    pub(crate) session: Session,
    pub(crate) source: Arc<Source>,
    pub(crate) provider_options: ProviderOptions,
}

/// Purpose of a session.
#[derive(Debug, Clone)]
pub(crate) struct Purpose {
    pub(crate) precision: String,
    /// Sizes of named axes.
    pub(crate) sizes: Vec<(String, i64)>,
}

impl OrtModel {
    /// Loads a model for a provider's device. `threads` is the default if the request names none.
    ///
    /// # Errors
    ///
    /// If the file is missing, damaged or not a model, an option is wrong, or the provider cannot run
    /// the model.
    pub fn load(
        library: &'static Library,
        request: &LoadRequest<'_>,
        provider: Box<dyn Provider>,
        threads: u32,
    ) -> Result<Self> {
        let common = Common::read(&request.options)?;
        common.optimisation.check(library.version())?;
        let file = OnnxFile::read(request.path)?;
        let accelerator = provider.accelerator();
        let source = Arc::new(Source {
            library,
            path: request.path.to_path_buf(),
            precision: file.precision().unwrap_or("fp32"),
            info: file.info(),
            provider,
            accelerator,
            common,
            threads: request.threads.unwrap_or(threads),
        });
        let session = if source.provider.specialises() {
            None
        } else {
            let purpose = Purpose { precision: source.precision.into(), sizes: Vec::new() };
            Some(Arc::new(source.make(&purpose, None)?))
        };
        Ok(Self { source, session })
    }
}

impl OrtModel {
    /// Returns whether the model is prepared already, so that another session may run beside that one.
    fn is_in_use(&self) -> bool {
        match &self.session {
            // The model itself has one of them.
            Some(session) => Arc::strong_count(session) > 1,
            None => Arc::strong_count(&self.source) > 1,
        }
    }
}

impl Model for OrtModel {
    type Tensor = OrtTensor;
    type Session = OrtSession;

    fn info(&self) -> ModelInfo {
        self.source.info.clone()
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Result<OrtSession> {
        let source = &self.source;
        source.check_precision(request.precision)?;
        source.check_axes(request.shapes)?;
        let sizes = source.named_sizes(request.shapes);
        let purpose = Purpose { precision: request.precision.into(), sizes };
        let beside = if self.is_in_use() { source.beside()? } else { None };
        let made = match (beside, &self.session) {
            (Some(source), _) => Arc::new(source.make(&purpose, None)?),
            (None, Some(session)) => Arc::clone(session),
            (None, None) => Arc::new(source.make(&purpose, None)?),
        };
        OrtSession::new(made, purpose, request.shapes)
    }

    fn tensor(&self, view: &View<'_>) -> Result<OrtTensor> {
        OrtTensor::new(view, self.source.accelerator.as_ref())
    }
}

impl Source {
    pub(crate) fn info(&self) -> &ModelInfo {
        &self.info
    }

    pub(crate) fn accelerator(&self) -> Option<&Arc<dyn Accelerator>> {
        self.accelerator.as_ref()
    }

    /// Returns the same with a queue of its own, if the provider wants that for sessions that run side by side.
    fn beside(&self) -> Result<Option<Arc<Self>>> {
        let Some(provider) = self.provider.beside()? else { return Ok(None) };
        Ok(Some(Arc::new(Self {
            library: self.library,
            path: self.path.clone(),
            precision: self.precision,
            info: self.info.clone(),
            accelerator: provider.accelerator(),
            provider,
            common: self.common.clone(),
            threads: self.threads,
        })))
    }

    fn check_precision(&self, asked: &str) -> Result<()> {
        let (own, offered) = (self.precision, self.provider.precisions());
        if !offered.contains(&asked) {
            let (provider, offered) = (self.provider.name(), offered.join(", "));
            let message = format!("{asked} is not offered by {provider}; {offered} is");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if asked == own || self.provider.converts(own, asked) {
            return Ok(());
        }
        let message = format!(
            "{} is a model in {own}, and {} computes in the model's own types: give it a file in \
             {asked} with `path = {{ {own} = \"…\", {asked} = \"…\" }}`, or ask for {own}",
            self.path.display(),
            self.provider.name(),
        );
        Err(Error::new(ErrorCode::Unsupported, message))
    }

    fn check_axes(&self, shapes: &[&[i64]]) -> Result<()> {
        let taken = self.provider.axes();
        for (input, shape) in self.info.inputs.iter().zip(shapes) {
            if shape.iter().any(|size| !taken.contains(size)) {
                let (name, provider) = (&input.name, self.provider.name());
                let message = format!(
                    "input `{name}` cannot have the shape {shape:?}: {provider} takes axes of {} \
                     to {}",
                    taken.start(),
                    taken.end()
                );
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        Ok(())
    }

    /// Returns the sizes of the axes that have names.
    fn named_sizes(&self, shapes: &[&[i64]]) -> Vec<(String, i64)> {
        let mut sizes = Vec::new();
        for (input, shape) in self.info.inputs.iter().zip(shapes) {
            for (dimension, size) in input.dimensions.iter().flatten().zip(*shape) {
                if let Dimension::Dynamic(name) = dimension
                    && !name.is_empty()
                    && sizes.iter().all(|(known, _)| known != name)
                {
                    sizes.push((name.clone(), *size));
                }
            }
        }
        sizes
    }

    /// Creates a session, which writes a profile to `profile` if given.
    pub(crate) fn make(
        self: &Arc<Self>,
        purpose: &Purpose,
        profile: Option<&Path>,
    ) -> Result<CreatedSession> {
        let set = self.provider.options(&purpose.precision);
        let provider_options = self.common.provider_options(set)?;
        // Earlier log lines are not about this call.
        drop(log::taken());
        let made = self.build(purpose, &provider_options, profile);
        let session = made.map_err(|error| {
            let error = convert(&error, Operation::Loading);
            // With strict placement, the message that nothing runs on a provider is only a consequence of its
            // failure.
            if fell_back(&error)
                && let Err(what) = self.provider.check_log(&error.details)
            {
                let message = format!("{}: {what}", self.path.display());
                return Error { code: ErrorCode::Device, message, ..error };
            }
            let mut message = format!("{}: {}", self.path.display(), error.message);
            if error.code == ErrorCode::RuntimeMissing {
                let plugin = self.library.plugin();
                message += &format!("; install it with `host runtimes install {plugin}`");
            }
            Error { message, ..error }
        })?;
        let logged = log::taken();
        self.provider.check_log(&logged).map_err(|what| {
            let message = format!("{}: {what}", self.path.display());
            Error::new(ErrorCode::Device, message).with_details(logged)
        })?;
        Ok(CreatedSession { session, source: Arc::clone(self), provider_options })
    }

    fn build(
        &self,
        purpose: &Purpose,
        provider_options: &ProviderOptions,
        profile: Option<&Path>,
    ) -> ort::Result<Session> {
        let common = &self.common;
        let mut builder = Session::builder(self.library.environment())?
            .with_log_level(LogLevel::Warning)?
            .with_optimization_level(common.optimisation.level())?
            .with_intra_threads(self.threads as usize)?
            .with_intra_op_spinning(common.spinning)?;
        // All other providers fall back to the processor.
        if self.provider.name() == Cpu::NAME {
            builder = self.library.append_processor(builder)?;
        } else if common.strict {
            builder = builder.with_disable_cpu_fallback()?;
        }
        if self.provider.specialises() {
            for (name, size) in &purpose.sizes {
                builder = builder.with_dimension_override(name, *size)?;
            }
        }
        for (key, value) in &common.session {
            builder = builder.with_config_entry(key, value)?;
        }
        if let Some(path) = profile {
            builder = builder.with_profiling(path)?;
        }
        self.provider.append(builder, provider_options)?.commit_from_file(&self.path)
    }

    /// Returns the settings that a session uses.
    pub(crate) fn used(
        &self,
        purpose: &Purpose,
        provider_options: &ProviderOptions,
    ) -> Vec<(String, String)> {
        let common = &self.common;
        let mut used: Vec<(String, String)> = [
            ("precision", purpose.precision.clone()),
            ("threads", self.threads.to_string()),
            ("engine", "onnxruntime".to_owned()),
            ("engine-version", self.library.version().to_owned()),
            ("provider", self.provider.name().to_owned()),
            ("graph-optimisation", common.optimisation.name().to_owned()),
            ("allow-spinning", common.spinning.to_string()),
            ("placement", if common.strict { "strict" } else { "any" }.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        if self.provider.name() != "CPUExecutionProvider" {
            // Those of a profile: the device works in the background, and ONNX Runtime does not wait for it.
            used.push(("operator-times".into(), "queueing".into()));
        }
        if purpose.precision != self.precision {
            used.push(("converted-from".into(), self.precision.into()));
        }
        used.extend(self.provider.used());
        let provider = provider_options.iter();
        used.extend(provider.map(|(key, value)| (format!("provider.{key}"), value.clone())));
        used.extend(common.session.clone());
        used
    }
}
