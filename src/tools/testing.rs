//! A context and a caller for the tests of the file tools.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Arguments, Tool, ToolContext, ToolResult};
use crate::provisioner::{Job, JobRunner, JobSpec, ProvisionError};

#[derive(Debug)]
pub(crate) struct NoJobs;

#[async_trait]
impl JobRunner for NoJobs {
    async fn start_job(&self, _spec: JobSpec) -> Result<Box<dyn Job>, ProvisionError> {
        Err(ProvisionError::ForkserverGone {
            reason: "none in this test".to_owned(),
        })
    }
}

/// A caller in `folder`, with `folder/home` and `folder/agent` as its homes.
pub(crate) fn context(folder: &Path) -> ToolContext {
    ToolContext {
        cwd: Some(folder.to_path_buf()),
        agent_home: folder.join("agent"),
        user_home: Some(folder.join("home")),
        deadline: None,
        cancelled: CancellationToken::new(),
        jobs: Arc::new(NoJobs),
        environment: Arc::new(Vec::new()),
        terminal_timeout: Duration::from_secs(180),
    }
}

/// Calls a tool with arguments given as a JSON object.
pub(crate) fn call(tool: &dyn Tool, context: &ToolContext, arguments: Value) -> ToolResult {
    let Value::Object(values) = arguments else {
        panic!("not an object: {arguments}")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let result = runtime.block_on(tool.call(Arguments::new(tool.spec().name, values), context));
    for key in tool.spec().returns {
        assert!(result.contains_key(*key), "{key} is missing in {result:?}");
    }
    assert_eq!(
        result.contains_key("error"),
        result.contains_key("error_class"),
        "{result:?}"
    );
    let failure_keys = if result.contains_key("error") { 2 } else { 0 };
    assert_eq!(
        result.len(),
        tool.spec().returns.len() + failure_keys,
        "{result:?}"
    );
    result
}

/// The error of a result, checked to be of a class.
pub(crate) fn error_of(result: &ToolResult, class: &str) -> String {
    assert_eq!(
        result.get("error_class"),
        Some(&Value::from(class)),
        "{result:?}"
    );
    result["error"].as_str().unwrap().to_owned()
}
