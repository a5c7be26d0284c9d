//! `warmcell sessions`: what can be done with sessions that live on.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use tokio::runtime;

use super::args_sessions::{SessionsArguments, SessionsCommand};
use super::{events, exit, list, streams, surroundings};
use crate::client::{Client, ClientError, Home, Results};
use crate::execution::{ErrorClass, KernelReport, Lost, Outcome, Unreceived, results_in_words};
use crate::process::hide_memory;
use crate::server::InterruptOrder;
use crate::session::{Policy, SessionName};
use crate::words::{agreeing, counted};

/// What keeps a command from its work.
#[derive(Debug)]
enum Fault {
    Client(ClientError),
    Usage(String),
    /// Stdout takes no more.
    Unwritten(io::Error),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

/// Runs the command; its exit code.
pub(super) fn main(arguments: &SessionsArguments) -> ExitCode {
    hide_memory();
    let built = runtime::Builder::new_current_thread().enable_all().build();
    let done = match built {
        Ok(runtime) => {
            let done = runtime.block_on(run(arguments));
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(Fault::Client(ClientError::NotStarted {
            reason: error.to_string(),
        })),
    };
    let code = done.unwrap_or_else(|fault| told(arguments, &fault));
    ExitCode::from(code)
}

/// Says what is wrong; the exit code.
fn told(arguments: &SessionsArguments, fault: &Fault) -> u8 {
    let (class, sentence) = match fault {
        Fault::Client(error) => (error.class(), error.to_string()),
        Fault::Usage(sentence) => (ErrorClass::Usage, sentence.clone()),
        Fault::Unwritten(error) => return exit::unwritten(error),
    };
    let said = if arguments.json {
        let answer = json!({ "error": sentence, "error_class": class });
        writeln!(streams::stdout(), "{answer}")
    } else {
        writeln!(io::stderr(), "warmcell: {sentence}")
    };
    if let Some(error) = said.err().filter(|_| arguments.json) {
        return exit::unwritten(&error);
    }
    exit::of(&Outcome::not_run(class, sentence, KernelReport::none()))
}

async fn run(arguments: &SessionsArguments) -> Result<u8, Fault> {
    let home = surroundings::home();
    let manager = arguments.manager.as_deref();
    let command = arguments.command.as_ref();
    let name = match command.unwrap_or(&SessionsCommand::List) {
        SessionsCommand::List => {
            let managers = home.managers_named(manager).await?;
            return Ok(list::list(&managers, arguments.json)?);
        }
        SessionsCommand::Close { all: true, .. } => return close_all(&home, arguments).await,
        SessionsCommand::Close { name, .. } => name.as_deref().ok_or_else(|| {
            Fault::Usage(
                "say which session: `warmcell sessions close NAME`; `warmcell sessions close --all` ends \
                 all of them"
                    .to_owned(),
            )
        })?,
        SessionsCommand::Show { name }
        | SessionsCommand::Events { name }
        | SessionsCommand::Wait { name, .. }
        | SessionsCommand::Interrupt { name, .. }
        | SessionsCommand::Reset { name } => name,
    };
    SessionName::parse(name).map_err(|error| Fault::Usage(error.to_string()))?;
    let client = home.holder(name, manager).await?;
    let Some(command) = command else {
        return Ok(0);
    };
    match command {
        SessionsCommand::List => {}
        SessionsCommand::Show { .. } => {
            let session = client.show(name).await?;
            if arguments.json {
                json_line(&session)?;
            } else {
                list::show(&session)?;
            }
        }
        SessionsCommand::Events { .. } => {
            let events = client.events(name).await?;
            return print_events(events, arguments.json).await;
        }
        SessionsCommand::Wait { timeout, .. } => {
            let results = client.wait(name, *timeout).await?;
            return print_results(results, arguments.json).await;
        }
        SessionsCommand::Interrupt { on_interrupt, .. } => {
            let on_interrupt = on_interrupt.map(|policy| Policy::from(policy).into());
            let order = InterruptOrder { on_interrupt };
            let answered = client.interrupt(name, order).await?;
            let sentence = match &answered.end {
                _ if !answered.interrupted => format!("no cell runs in {name}"),
                Some(end) => format!("the cell that ran in {name}: {}", end.sentence),
                None => format!(
                    "the cell in {name} was interrupted and has not ended yet; `warmcell sessions show \
                     {name}` says what it does"
                ),
            };
            answer(arguments, &json!(answered), &sentence)?;
        }
        SessionsCommand::Reset { .. } => {
            let reset = client.reset(name).await?;
            answer(arguments, &reset, &reset_in_words(name, &reset))?;
        }
        SessionsCommand::Close { .. } => close(&client, name, arguments).await?,
    }
    Ok(0)
}

async fn close(client: &Client, name: &str, arguments: &SessionsArguments) -> Result<(), Fault> {
    let mut closed = client.close(name).await?;
    if let Some(closed) = closed.as_object_mut() {
        closed.insert("name".to_owned(), name.into());
    }
    let flag = |key| closed.get(key).and_then(Value::as_bool) == Some(true);
    let mut sentence = format!("session {name} is closed");
    if flag("was_cut_off") {
        sentence.push_str("; its kernel did not end within 1 s and was killed");
    }
    let unreceived = closed.get("unreceived").and_then(Value::as_array);
    sentence += &dropped(unreceived.map_or(&[], Vec::as_slice));
    answer(arguments, &closed, &sentence)
}

/// `a is reset: 2 cells and x are gone; ...`
fn reset_in_words(name: &str, reset: &Value) -> String {
    let lost = reset.pointer("/kernel/lost").cloned();
    let lost = lost.and_then(|lost| serde_json::from_value::<Lost>(lost).ok());
    let what = lost.and_then(|lost| lost.in_words());
    let what = what.map_or_else(String::new, |what| format!(": {what} gone"));
    let error = reset.get("error").and_then(Value::as_str);
    let then = match (reset.get("next_kernel").and_then(Value::as_str), error) {
        (_, Some(reason)) => {
            format!("; no fresh kernel could be started ({reason}); the next cell tries again")
        }
        (Some("starting"), None) => "; its fresh kernel is still being started".to_owned(),
        _ => String::new(),
    };
    format!("{name} is reset{what}{then}")
}

/// What is said of results that nobody has received; nothing, if there are none.
pub(super) fn dropped(unreceived: &[Value]) -> String {
    if unreceived.is_empty() {
        return String::new();
    }
    let one = |it: &Value| {
        let unreceived = serde_json::from_value::<Unreceived>(it.clone()).ok();
        let session = it.get("session").and_then(Value::as_str);
        unreceived.map_or_else(|| "one more".to_owned(), |it| it.in_words(session))
    };
    let count = unreceived.len() as u64;
    format!(
        "; {} that nobody has received {} dropped: {}",
        counted(count, "result"),
        agreeing(count, "is", "are"),
        results_in_words(unreceived.iter().map(one))
    )
}

async fn close_all(home: &Home, arguments: &SessionsArguments) -> Result<u8, Fault> {
    let mut code = 0;
    for found in home.managers_named(arguments.manager.as_deref()).await? {
        match found.sessions {
            Ok(sessions) => {
                let names = sessions.iter().filter_map(|it| it.get("name")?.as_str());
                for name in names {
                    close(&found.client, name, arguments).await?;
                }
            }
            Err(error) => code = told(arguments, &Fault::Client(error)),
        }
    }
    Ok(code)
}

fn answer(arguments: &SessionsArguments, json: &Value, sentence: &str) -> Result<(), Fault> {
    if arguments.json {
        return json_line(json).map_err(Fault::from);
    }
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {sentence}"));
    Ok(())
}

fn json_line(value: &Value) -> io::Result<()> {
    writeln!(streams::stdout(), "{value}")
}

async fn print_events(mut events: Results, is_json: bool) -> Result<u8, Fault> {
    while let Some(line) = events.next_text().await? {
        if is_json {
            streams::stdout().write_all(&line)?;
        } else {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            writeln!(streams::stdout(), "{}", events::event_line(&event))?;
        }
        streams::stdout().flush()?;
    }
    Ok(0)
}

async fn print_results(mut results: Results, is_json: bool) -> Result<u8, Fault> {
    let mut code = 0;
    while let Some(outcome) = results.next_outcome().await? {
        code = exit::of(&outcome);
        if is_json {
            let line = serde_json::to_string(&outcome).unwrap_or_default();
            writeln!(streams::stdout(), "{line}")?;
        } else {
            let newline = if outcome.output.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            write!(streams::stdout(), "{}{newline}", outcome.output)?;
        }
        streams::stdout().flush()?;
    }
    Ok(code)
}
