//! The two execution providers.

use std::sync::Arc;

use engine_onnxruntime::ort::ep::{self, ArbitrarilyConfigurableExecutionProvider};
use engine_onnxruntime::ort::session::builder::SessionBuilder;
use engine_onnxruntime::{
    Accelerator, GpuRuntime, Provider, ProviderOptions, ReservedOptions, ort, runtime_folder,
};
use plugin_api::backend::{Error, ErrorCode, Result};

use crate::CUDA;
use crate::nvml::Gpu;

/// Options that this backend sets itself, for either provider.
pub(crate) const TAKEN: &ReservedOptions = &[
    ("device_id", "`device` of the backend"),
    ("enable_cuda_graph", "the option `cuda-graph`"),
    ("has_user_compute_stream", "the backend, which computes on streams of its own"),
    ("trt_bf16_enable", "`precision` of the matrix"),
    ("trt_cuda_graph_enable", "the option `cuda-graph`"),
    ("trt_fp16_enable", "`precision` of the matrix"),
    ("trt_int8_enable", "`precision` of the matrix"),
    ("use_tf32", "the option `tf32`"),
    ("user_compute_stream", "the backend, which computes on streams of its own"),
];

/// State that both providers share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) gpu: Gpu,
    pub(crate) runtime: Arc<GpuRuntime>,
    /// The CUDA runtime's version, in its own numbering.
    pub(crate) version: i32,
    pub(crate) graph: bool,
    pub(crate) tf32: bool,
}

impl Common {
    fn used(&self) -> Vec<(String, String)> {
        let (major, minor) = (self.version / 1000, self.version % 1000 / 10);
        let mut used = vec![
            ("cuda-runtime".to_owned(), format!("{major}.{minor}")),
            ("tf32".to_owned(), self.tf32.to_string()),
            ("cuda-graph".to_owned(), self.graph.to_string()),
        ];
        used.extend(self.gpu.state());
        used
    }

    fn accelerator(&self) -> Arc<dyn Accelerator> {
        self.runtime.clone()
    }

    /// Returns the same with a stream of its own.
    fn beside(&self) -> Result<Self> {
        if self.graph {
            let message = "`cuda-graph` cannot be used with several clients: while one captures a graph, CUDA \
                           refuses calls of the others";
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let runtime = GpuRuntime::open(CUDA, runtime_folder(), self.gpu.ordinal)?;
        Ok(Self { runtime: Arc::new(runtime), ..self.clone() })
    }

    /// Returns the CUDA provider, on this stream.
    fn cuda(&self, options: &ProviderOptions) -> ep::ExecutionProviderDispatch {
        let cuda = options
            .iter()
            .fold(ep::CUDA::default(), |cuda, (key, value)| cuda.with_arbitrary_config(key, value));
        // SAFETY: the stream lives as long as the provider, and the model drops sessions first.
        unsafe { cuda.with_compute_stream(self.runtime.stream().cast()) }.build().error_on_failure()
    }

    fn cuda_options(&self) -> ProviderOptions {
        let flag = |on: bool| if on { "1" } else { "0" }.to_owned();
        ProviderOptions::from([
            ("device_id".to_owned(), self.gpu.ordinal.to_string()),
            ("enable_cuda_graph".to_owned(), flag(self.graph)),
            ("use_tf32".to_owned(), flag(self.tf32)),
        ])
    }
}

/// CUDA kernels, cuBLAS and cuDNN.
pub(crate) struct Cuda(pub(crate) Common);

impl Provider for Cuda {
    fn name(&self) -> &str {
        "CUDAExecutionProvider"
    }

    /// Quantised models are widened, which is not int8, so int8 is not offered.
    fn precisions(&self) -> &[&str] {
        &["fp32", "fp16", "bf16"]
    }

    fn options(&self, _: &str) -> ProviderOptions {
        self.0.cuda_options()
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        Ok(builder.with_execution_providers([self.0.cuda(options)])?)
    }

    fn beside(&self) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(Box::new(Self(self.0.beside()?))))
    }

    fn accelerator(&self) -> Option<Arc<dyn Accelerator>> {
        Some(self.0.accelerator())
    }

    fn used(&self) -> Vec<(String, String)> {
        self.0.used()
    }
}

/// Engines that TensorRT builds for the given shapes, and CUDA for the remaining operators.
pub(crate) struct TensorRt(pub(crate) Common);

impl Provider for TensorRt {
    fn name(&self) -> &str {
        "TensorrtExecutionProvider"
    }

    fn precisions(&self) -> &[&str] {
        &["fp32", "fp16", "bf16", "int8"]
    }

    fn options(&self, precision: &str) -> ProviderOptions {
        let flag = |on: bool| if on { "1" } else { "0" }.to_owned();
        ProviderOptions::from([
            ("device_id".to_owned(), self.0.gpu.ordinal.to_string()),
            ("trt_bf16_enable".to_owned(), flag(precision == "bf16")),
            ("trt_cuda_graph_enable".to_owned(), flag(self.0.graph)),
            ("trt_fp16_enable".to_owned(), flag(precision == "fp16")),
            ("trt_int8_enable".to_owned(), flag(precision == "int8")),
        ])
    }

    fn append(
        &self,
        builder: SessionBuilder,
        options: &ProviderOptions,
    ) -> ort::Result<SessionBuilder> {
        let tensorrt = options.iter().fold(ep::TensorRT::default(), |provider, (key, value)| {
            provider.with_arbitrary_config(key, value)
        });
        let stream = self.0.runtime.stream().cast();
        // SAFETY: as for CUDA.
        let tensorrt = unsafe { tensorrt.with_compute_stream(stream) }.build().error_on_failure();
        Ok(builder.with_execution_providers([tensorrt, self.0.cuda(&self.0.cuda_options())])?)
    }

    /// TensorRT builds engines in half precision from weights in fp32.
    fn converts(&self, file: &str, precision: &str) -> bool {
        file == "fp32" && matches!(precision, "fp16" | "bf16")
    }

    fn specialises(&self) -> bool {
        true
    }

    fn beside(&self) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(Box::new(Self(self.0.beside()?))))
    }

    fn accelerator(&self) -> Option<Arc<dyn Accelerator>> {
        Some(self.0.accelerator())
    }

    fn used(&self) -> Vec<(String, String)> {
        self.0.used()
    }
}
