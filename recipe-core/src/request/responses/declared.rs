//! The tools of a Responses body: the function that each becomes for the model, and its name.
//! Knows no items.

use std::collections::{HashMap, HashSet};

use super::body::{Custom, Execution, Function, KnownTool, Namespace, NamespaceTool, Tool, ToolSearch};
use super::NamespaceToolMap;
use crate::conversation::ToolDefinition;
use crate::error::{Error, Result};
use crate::options::{ConversionOptions, ModelVersion, WebSearchBehavior};
use crate::request::check_served;
use crate::request::custom::{self, CustomTool};
use crate::request::tools::{check_name, check_plain_name};

/// What a search for tools is called for the model.
pub(crate) const TOOL_SEARCH: &str = "tool_search";
const APPLY_PATCH: &str = "apply_patch";
const APPLY_PATCH_DESCRIPTION: &str = include_str!("apply_patch.txt");

/// The error of web search where the options refuse it.
pub(super) fn web_search_refused() -> Error {
    Error::conversion("Server tools are not supported")
}

/// The names of the functions that the tools become.
pub(super) struct ToolNames<'o> {
    version: ModelVersion,
    options: &'o ConversionOptions,
    taken: HashSet<String>,
    by_namespace: HashMap<(String, String), String>,
    /// The last suffix of a joined name, so that a free one is found at once.
    suffixes: HashMap<String, u32>,
    /// Function names of namespace tools.
    pub(super) map: NamespaceToolMap,
    /// Whether the model may search for tools.
    pub(super) tool_search: bool,
}

impl<'o> ToolNames<'o> {
    pub(super) fn new(version: ModelVersion, options: &'o ConversionOptions) -> Self {
        Self {
            version,
            options,
            taken: HashSet::new(),
            by_namespace: HashMap::new(),
            suffixes: HashMap::new(),
            map: NamespaceToolMap::new(),
            tool_search: false,
        }
    }

    /// Checks a list of tools, one by one, and names its functions in order; [`define`] takes the names.
    /// `path` is the place of the list in the request.
    pub(super) fn name(&mut self, tools: &[Tool], path: &str) -> Result<Vec<String>> {
        for tool in tools {
            if let Tool::Known(KnownTool::Function(function)) = tool {
                self.taken.insert(function.name.clone());
            }
        }
        let mut names = Vec::with_capacity(tools.len());
        for (i, tool) in tools.iter().enumerate() {
            let tool = match tool {
                Tool::Known(tool) => tool,
                Tool::Unknown(kind) => {
                    check_served(self.options, kind, || format!("{path}[{i}]"))?;
                    continue;
                }
            };
            match tool {
                KnownTool::Function(Function { name, .. }) | KnownTool::Custom(Custom { name, .. }) => {
                    check_name(name, || format!("{path}[{i}].name"))?;
                    names.push(name.clone());
                }
                KnownTool::Namespace(namespace) => self.name_all(namespace, &format!("{path}[{i}]"), &mut names)?,
                KnownTool::ToolSearch(search) if self.is_function(search) => {
                    names.push(TOOL_SEARCH.to_owned());
                    self.tool_search = true;
                }
                KnownTool::ToolSearch(_) => {}
                KnownTool::WebSearch(_) | KnownTool::DatedWebSearch(_) => {
                    if self.options.responses_web_search == WebSearchBehavior::Reject {
                        return Err(web_search_refused().at(format!("{path}[{i}]")));
                    }
                }
            }
        }
        Ok(names)
    }

    fn name_all(&mut self, namespace: &Namespace, path: &str, names: &mut Vec<String>) -> Result<()> {
        check_plain_name(&namespace.name, || format!("{path}.name"))?;
        let mut locals = HashSet::with_capacity(namespace.tools.len());
        for (i, tool) in namespace.tools.iter().enumerate() {
            let function = match tool {
                NamespaceTool::Function(function) => function,
                NamespaceTool::Custom(custom) => {
                    return Err(Error::conversion(format!(
                        "Currently custom tools are not allowed inside a namespace. \
                         Found custom tool '{}' in {path}.tools[{i}].",
                        custom.name
                    ))
                    .at(format!("{path}.tools[{i}]")));
                }
            };
            check_name(&function.name, || format!("{path}.tools[{i}].name"))?;
            if !locals.insert(function.name.as_str()) {
                return Err(Error::conversion("Tool names within a namespace must be unique.").at(path));
            }
            names.push(self.take(&namespace.name, &function.name));
        }
        Ok(())
    }

    /// A name for a declared function of a namespace. Of two equal functions, calls mean the first.
    fn take(&mut self, namespace: &str, local: &str) -> String {
        let name = self.free(namespace, local);
        let place = (namespace.to_owned(), local.to_owned());
        self.map.insert(name.clone(), place.clone());
        self.by_namespace.entry(place).or_insert_with(|| name.clone());
        name
    }

    /// A name that no function has so far.
    fn free(&mut self, namespace: &str, local: &str) -> String {
        let joined = self.join(namespace, local);
        let mut name = joined.clone();
        while !self.taken.insert(name.clone()) {
            let suffix = self.suffixes.entry(joined.clone()).or_default();
            *suffix += 1;
            name = format!("{joined}_{suffix}");
        }
        name
    }

    fn join(&self, namespace: &str, local: &str) -> String {
        let separator = match self.version {
            ModelVersion::DeepseekV41Flash => "::",
            ModelVersion::DeepseekV4Pro if namespace.ends_with('_') || local.starts_with('_') => "",
            ModelVersion::DeepseekV4Pro => "__",
        };
        format!("{namespace}{separator}{local}")
    }

    /// The function that a past call of a namespace's tool means. One that is not declared keeps the name of its
    /// first call; as no reply may mean it, the map does not have it.
    pub(super) fn called(&mut self, namespace: String, local: String) -> String {
        let place = (namespace, local);
        if let Some(name) = self.by_namespace.get(&place) {
            return name.clone();
        }
        let name = self.free(&place.0, &place.1);
        self.by_namespace.insert(place, name.clone());
        name
    }

    /// Whether a search becomes a function: only V4.1 can search, and only if the client answers.
    fn is_function(&self, search: &ToolSearch) -> bool {
        self.version == ModelVersion::DeepseekV41Flash && search.execution == Some(Execution::Client)
    }

    /// The functions of a list of tools that `names` names, and its custom tools.
    pub(super) fn define(
        &self,
        tools: Vec<Tool>,
        names: Vec<String>,
        custom: &mut Vec<CustomTool>,
    ) -> Vec<ToolDefinition> {
        let mut names = names.into_iter();
        let mut defined = Vec::with_capacity(names.len());
        let mut next_name = || names.next().expect("every function has been named");
        for tool in tools {
            let Tool::Known(tool) = tool else {
                continue;
            };
            match tool {
                KnownTool::Function(function) => defined.push(function_definition(function, next_name(), None)),
                KnownTool::Namespace(Namespace { description, tools, .. }) => {
                    // V4 is not told what a namespace is about.
                    let description = description.filter(|_| self.version == ModelVersion::DeepseekV41Flash);
                    for tool in tools {
                        if let NamespaceTool::Function(function) = tool {
                            defined.push(function_definition(function, next_name(), description.as_deref()));
                        }
                    }
                }
                KnownTool::Custom(Custom { description, grammar, .. }) => {
                    let name = next_name();
                    let grammar = grammar.0.filter(|_| name != APPLY_PATCH);
                    defined.push(self.custom_definition(&name, description.0, grammar.as_ref()));
                    custom.push(CustomTool { name, grammar });
                }
                KnownTool::ToolSearch(search) if self.is_function(&search) => defined.push(ToolDefinition {
                    name: next_name(),
                    description: search.description,
                    parameters: search.parameters,
                    strict: None,
                    defer_loading: false,
                }),
                KnownTool::ToolSearch(_) | KnownTool::WebSearch(_) | KnownTool::DatedWebSearch(_) => {}
            }
        }
        defined
    }

    /// The reference's `apply_patch` has a description and a schema of its own, whatever the request says.
    fn custom_definition(
        &self,
        name: &str,
        description: Option<String>,
        grammar: Option<&custom::Grammar>,
    ) -> ToolDefinition {
        if name != APPLY_PATCH {
            return custom::definition(name, description, grammar);
        }
        let description = match self.version {
            ModelVersion::DeepseekV41Flash => APPLY_PATCH_DESCRIPTION.to_owned(),
            // The same text without one empty line.
            ModelVersion::DeepseekV4Pro => APPLY_PATCH_DESCRIPTION.replacen(":\n\n***", ":\n***", 1),
        };
        let input = "The entire contents of the apply_patch command (the *** Begin Patch ... *** End Patch envelope).";
        custom::function_of_input(name, description, vec![("type", "string"), ("description", input)])
    }
}

fn function_definition(function: Function, name: String, namespace_description: Option<&str>) -> ToolDefinition {
    let Function { description, parameters, strict, .. } = function;
    let description = match namespace_description.filter(|text| !text.is_empty()) {
        Some(about) => Some(format!("{about}\n{}", description.unwrap_or_default())),
        None => description,
    };
    ToolDefinition { name, description, parameters, strict, defer_loading: false }
}
