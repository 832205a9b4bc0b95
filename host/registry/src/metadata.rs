//! Contents of `plugin.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

use crate::error::MetadataError;
use crate::limits::LARGEST_TEXT;
use crate::runtime::RuntimeNeed;
use crate::strict::{Text, is_line};

/// The newest `schema` of `plugin.toml` that this host reads.
const SCHEMA: u32 = 1;

/// Kinds of native plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Runs models on hardware.
    Backend,
}

/// A `plugin.toml`, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Metadata {
    /// The format's version.
    pub schema: u32,
    /// Lower-case words and digits joined by hyphens.
    pub id: String,
    /// The plugin's version.
    pub version: Version,
    /// Kind of the plugin.
    pub kind: Kind,
    /// One sentence.
    pub summary: String,
    /// SPDX licence expression.
    pub license: String,
    /// Name of the library without the operating system's prefix and suffix: `backend_cpu` is
    /// `libbackend_cpu.so` on Linux.
    pub library: String,
    /// Range of native ABI versions that it can be used with.
    pub api: VersionReq,
    /// Kinds of hardware that it runs models on.
    pub hardware: Vec<String>,
    /// The engine that it drives.
    pub engine: String,
    /// Libraries that it expects to find on the system.
    #[serde(default)]
    pub runtime_libraries: Vec<String>,
    /// The vendor's runtime that it uses, if that can be installed.
    #[serde(default)]
    pub runtime: Option<RuntimeNeed>,
    /// Permissions beyond computing, as text for the user; the host cannot enforce them for native code.
    #[serde(default)]
    pub permissions: Vec<String>,
    /// Names of the host's environment variables that it needs beyond those that every worker gets.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Names and one-sentence explanations of its options. `None` if they are not listed; the
    /// plugin itself refuses unknown ones.
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
    /// All values of those options that have few, by the option's name.
    #[serde(default)]
    pub option_values: BTreeMap<String, Vec<String>>,
    /// Ends of the names of the models' files that it reads, without the dot. `None` if it may read any.
    #[serde(default)]
    pub formats: Option<Vec<String>>,
    /// How its author builds it. Nothing that is measured reads it.
    #[serde(default, skip_serializing)]
    pub build: Option<Recipe>,
}

/// The table `[build]`: how a plugin is built from its project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recipe {
    /// The command: a program and its arguments, run in the project's folder.
    pub command: Vec<String>,
    /// Output of the command, relative to that folder: a file, or the folder of the library.
    pub result: PathBuf,
    /// Programs, or files of the project, that the command needs, and how to install each.
    #[serde(default)]
    pub needs: BTreeMap<String, String>,
}

impl Metadata {
    /// Reads and checks a `plugin.toml`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not TOML, has a key that is unknown, missing or of the wrong type,
    /// or an invalid value; with the file and the line.
    pub fn read(file: &Path) -> Result<Self, MetadataError> {
        let text =
            host_files::read_to_string(file, LARGEST_TEXT).map_err(|error| MetadataError {
                file: file.to_owned(),
                line: None,
                message: format!("cannot be read: {error}"),
            })?;
        Self::parse(&text, file)
    }

    /// Checks the text of a `plugin.toml`; `file` is named in errors.
    ///
    /// # Errors
    ///
    /// As [`Metadata::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, MetadataError> {
        let text = Text { text, file };
        let value = |key: &str, message: String| Err(text.at_key(key, message));
        let metadata: Self = text.parse(SCHEMA)?;
        if !is_id(&metadata.id) {
            return value(
                "id",
                format!(
                    "`{}` is not an id; it must be lower-case words or digits joined by hyphens",
                    metadata.id
                ),
            );
        }
        if let Some((key, text)) = metadata.texts().find(|(_, text)| !is_line(text)) {
            return value(
                key,
                format!("{text:?} is not one line of text, or has invisible characters"),
            );
        }
        if !is_library_name(&metadata.library) {
            return value(
                "library",
                format!(
                    "`{}` is no library name; it must be a plain name such as `backend_cpu`, \
                     without a folder, prefix or suffix, and the library lies beside plugin.toml",
                    metadata.library
                ),
            );
        }
        if let Some(message) = metadata.wrong_need() {
            return value("needed-by", message);
        }
        if let Some(message) = metadata.wrong_values() {
            return value("option-values", message);
        }
        Ok(metadata)
    }

    /// Returns the error in the values of options.
    fn wrong_values(&self) -> Option<String> {
        let is_known =
            |name: &String| self.options.as_ref().is_some_and(|options| options.contains_key(name));
        if let Some(unknown) = self.option_values.keys().find(|name| !is_known(name)) {
            return Some(format!(
                "`option-values` names `{unknown}`, which is not among the plugin's options"
            ));
        }
        let (empty, _) = self.option_values.iter().find(|(_, values)| values.is_empty())?;
        Some(format!("`option-values` lists no value of `{empty}`"))
    }

    /// Returns the error in the options that need the runtime.
    fn wrong_need(&self) -> Option<String> {
        let need = self.runtime.as_ref().filter(|need| !need.needed_by.is_empty())?;
        if !need.optional {
            return Some("`needed-by` belongs to a runtime that is `optional`".into());
        }
        let known = self.options.as_ref()?;
        let unknown = need.needed_by.keys().find(|option| !known.contains_key(*option))?;
        Some(format!("`needed-by` names `{unknown}`, which is not among the plugin's options"))
    }

    /// Returns the free text, with its keys.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let one =
            [("summary", &self.summary), ("license", &self.license), ("engine", &self.engine)];
        let lists = [
            ("hardware", &self.hardware),
            ("runtime-libraries", &self.runtime_libraries),
            ("permissions", &self.permissions),
        ];
        let listed =
            lists.into_iter().flat_map(|(key, texts)| texts.iter().map(move |text| (key, text)));
        one.into_iter().chain(listed).map(|(key, text)| (key, text.as_str()))
    }
}

/// Returns whether `id` is lower-case words or digits joined by single hyphens.
pub(crate) fn is_id(id: &str) -> bool {
    id.split('-').all(|word| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

/// Returns whether a library lies in the plugin's own folder, which is hashed and trusted.
fn is_library_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"schema = 1
id = "cpu"
version = "0.1.0"
kind = "backend"
summary = "Runs ONNX models on the processor."
license = "MIT OR Apache-2.0"
library = "backend_cpu"
api = ">=1.0, <2"
hardware = ["cpu"]
engine = "rten"
"#;

    fn error(from: &str, to: &str) -> String {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "the replacement must change something");
        let error = Metadata::parse(&text, Path::new("cpu/plugin.toml"));
        error.expect_err("a broken plugin.toml").to_string()
    }

    #[test]
    fn a_complete_file_is_read() {
        let metadata = Metadata::parse(GOOD, Path::new("plugin.toml")).expect("a good file");
        assert_eq!(metadata.id, "cpu");
        assert!(metadata.api.matches(&crate::HOST_ABI));
        assert!(metadata.permissions.is_empty());
        assert_eq!(metadata.options, None);
    }

    #[test]
    fn options_are_declared_by_name() {
        let text = format!("{GOOD}[options]\noptimise = \"Whether to optimise.\"\n");
        let metadata = Metadata::parse(&text, Path::new("plugin.toml")).expect("a good file");
        let options = metadata.options.expect("they are declared");
        assert_eq!(options["optimise"], "Whether to optimise.");
        let text = format!("{GOOD}options = {{}}\n");
        let metadata = Metadata::parse(&text, Path::new("plugin.toml")).expect("a good file");
        assert_eq!(metadata.options, Some(BTreeMap::new()), "it takes none, and says so");
    }

    #[test]
    fn a_runtime_is_named() {
        let runtime = "[runtime]\nname = \"onnxruntime\"\nversion = \"1.22.2.post3\"\n\
                       summary = \"ONNX Runtime\"\n";
        let parse = |text: &str| Metadata::parse(text, Path::new("cpu/plugin.toml"));
        let metadata = parse(&format!("{GOOD}{runtime}")).expect("a good file");
        let need = metadata.runtime.expect("it is named");
        assert_eq!(need.folder_name(), "onnxruntime-1.22.2.post3");
        assert_eq!((need.optional, need.path), (false, None));
        let broken = |from: &str, to: &str| {
            let text = format!("{GOOD}{runtime}").replacen(from, to, 1);
            parse(&text).expect_err("a broken runtime").to_string()
        };
        let cases = [
            broken("\"onnxruntime\"", "\"../onnxruntime\""),
            broken("summary = \"ONNX", "sumary = \"ONNX"),
            broken("ONNX Runtime", "ONNX\\nRuntime"),
            broken("version = \"1.22.2.post3\"\n", ""),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
    cpu/plugin.toml:12: `name`: "../onnxruntime" is not a name or version of letters, digits, `.`, `-`, `_` and `+`
    cpu/plugin.toml:14: unknown key `sumary`; did you mean `summary`?
    cpu/plugin.toml:14: `summary`: "ONNX\nRuntime" is not one line of text, or has invisible characters
    cpu/plugin.toml: missing key `version`
    "#);
    }

    #[test]
    fn how_it_is_built_is_read_and_changes_nothing_else() {
        let build = "[build]\ncommand = [\"make\"]\nresult = \"build\"\n[build.needs]\nmake = \"install it\"\n";
        let parse = |text: &str| Metadata::parse(text, Path::new("cpu/plugin.toml"));
        let metadata = parse(&format!("{GOOD}{build}")).expect("a good file");
        let recipe = metadata.build.clone().expect("it is there");
        assert_eq!(
            (&*recipe.command, &*recipe.needs["make"]),
            (&["make".to_owned()][..], "install it")
        );
        let without = parse(GOOD).expect("a good file");
        assert_eq!(Metadata { build: None, ..metadata }, without);
        let told = parse(&format!("{GOOD}{}", build.replace("result", "resutl")));
        let told = told.expect_err("a key that is mistyped").to_string();
        insta::assert_snapshot!(told, @"cpu/plugin.toml:13: unknown key `resutl`; did you mean `result`?");
    }

    #[test]
    fn values_of_options_belong_to_options() {
        let options = format!("{GOOD}[options]\noptimise = \"Whether to optimise.\"\n");
        let parse = |values: &str| {
            let text = format!("{options}[option-values]\n{values}\n");
            Metadata::parse(&text, Path::new("cpu/plugin.toml"))
        };
        let metadata = parse("optimise = [\"true\", \"false\"]").expect("they are right");
        assert_eq!(metadata.option_values["optimise"], ["true", "false"]);
        let told = |values: &str| parse(values).expect_err("they are wrong").to_string();
        assert!(told("optimize = [\"true\"]").contains("names `optimize`, which is not among"));
        assert!(told("optimise = []").contains("lists no value of `optimise`"));
    }

    #[test]
    fn an_optional_runtime_is_needed_by_options() {
        let runtime = "[runtime]\nname = \"onnxruntime\"\nversion = \"1.0\"\n\
                       summary = \"ONNX Runtime\"\noptional = true\n\
                       needed-by = { engine = \"onnxruntime\" }\n\
                       [options]\nengine = \"rten or onnxruntime.\"\n";
        let parse = |text: &str| Metadata::parse(text, Path::new("cpu/plugin.toml"));
        let need = parse(&format!("{GOOD}{runtime}")).expect("a good file").runtime;
        let need = need.expect("it is named");
        let options = |value: &str| BTreeMap::from([("engine".to_owned(), value.to_owned())]);
        assert!(need.is_needed(&options("onnxruntime")));
        assert!(!need.is_needed(&options("rten")) && !need.is_needed(&BTreeMap::new()));
        let always = RuntimeNeed { optional: false, needed_by: BTreeMap::new(), ..need };
        assert!(always.is_needed(&BTreeMap::new()));
        let broken = |from: &str, to: &str| {
            let text = format!("{GOOD}{runtime}").replacen(from, to, 1);
            parse(&text).expect_err("a broken need").to_string()
        };
        let cases = [
            broken("{ engine", "{ motor"),
            broken("optional = true\n", ""),
            broken("\"onnxruntime\" }", "true }"),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r"
        cpu/plugin.toml:16: `needed-by` names `motor`, which is not among the plugin's options
        cpu/plugin.toml:15: `needed-by` belongs to a runtime that is `optional`
        cpu/plugin.toml:16: `needed-by`: invalid type: boolean `true`, expected a string
        ");
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_fault() {
        let cases = [
            error("engine", "engin"),
            error("engine = \"rten\"\n", ""),
            error("0.1.0", "0.1"),
            error("backend\"", "frontend\""),
            error("schema = 1", "schema = 2\nfuture = true"),
            error("\"cpu\"", "\"CPU\""),
            error("backend_cpu", "../backend_cpu"),
            error(">=1.0, <2", "one"),
            error("id = \"cpu\"", "id = \"cpu"),
            error("the processor.", "the\\u001b[2J processor."),
            error("[\"cpu\"]", "[\"cpu\", \"\"\"a\nb\"\"\"]"),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
        cpu/plugin.toml:10: unknown key `engin`; did you mean `engine`?
        cpu/plugin.toml: missing key `engine`
        cpu/plugin.toml:3: `version`: unexpected end of input while parsing minor version number
        cpu/plugin.toml:4: `kind`: unknown variant `frontend`, expected `backend`
        cpu/plugin.toml:1: unknown schema 2; this host reads up to 1 and may need an update
        cpu/plugin.toml:2: `CPU` is not an id; it must be lower-case words or digits joined by hyphens
        cpu/plugin.toml:7: `../backend_cpu` is no library name; it must be a plain name such as `backend_cpu`, without a folder, prefix or suffix, and the library lies beside plugin.toml
        cpu/plugin.toml:8: `api`: unexpected character 'o' while parsing major version number
        cpu/plugin.toml:2: `id`: invalid basic string, expected `"`
        cpu/plugin.toml:5: "Runs ONNX models on the\u{1b}[2J processor." is not one line of text, or has invisible characters
        cpu/plugin.toml:9: "a\nb" is not one line of text, or has invisible characters
        "#);
    }
}
