//! `warmcell exec`: what it needs before the first cell, and its refusals.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::time::timeout;

use super::args::ExecArguments;
use super::kernels::{Kernels, Remote};
use super::row::{BESIDE, Order, row, told};
use super::show::{Screen, json_line};
use super::signals::Signals;
use super::terms::CellTerms;
use super::{exit, source, streams, surroundings};
use crate::config::{Caller, Configuration, Settings};
use crate::execution::{ErrorClass, KernelReport, Outcome};
use crate::process::{ProcessError, own_limits, try_descriptors, try_thread};
use crate::session::{Registry, SessionError, SessionName};
use crate::telemetry::log_when_needed;
use crate::tools::{Grant, ToolTable};

/// Descriptors for one kernel and a tool call.
const DESCRIPTORS: usize = 24;
/// As long as this process may live.
const FOR_EVER: Duration = Duration::from_secs(366 * 86_400);

/// Runs the command; its exit code.
pub(super) fn main(arguments: &ExecArguments) -> ExitCode {
    let named = arguments.session.clone().or_else(surroundings::session);
    let file = surroundings::configuration();
    if let Some(sentence) = surroundings::refusal(&file) {
        return ExitCode::from(refuse_at_once(arguments, ErrorClass::Usage, &sentence));
    }
    let configuration = file.configuration();
    let settings = surroundings::configured_settings(&configuration.values);
    // A client holds no cells: only a manager starts itself anew.
    let unhidden = match named {
        None => surroundings::hide_secrets_for(arguments, &settings.passed_variables),
        Some(_) => surroundings::hide_from_others(),
    };
    let code = match start(named.is_some()) {
        Ok((runtime, screen)) => {
            let told = unhidden.into_iter().collect();
            let configured = (settings, configuration);
            let code = runtime.block_on(exec(arguments, named, configured, screen, told));
            // A write to a pipe that nobody reads would hold us for ever.
            runtime.shutdown_background();
            code
        }
        Err(error) => refuse_at_once(arguments, ErrorClass::Unavailable, &error.to_string()),
    };
    ExitCode::from(code)
}

/// What is needed of the system before anything else: later a lack of it would be a panic of the
/// runtime, or half of the work. A client needs little, and is to be quick.
fn start(is_client: bool) -> Result<(Runtime, Screen), ProcessError> {
    let screen = Screen::new();
    if !is_client {
        // Under the user's own limit: kernels get that, and need nearly as many.
        try_descriptors(DESCRIPTORS)?;
        screen.prepare()?;
        try_thread()?;
    }
    // One thread: a command that mostly waits starts sooner and stays smaller.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(FOR_EVER)
        .build()
        .map_err(|source| ProcessError::Descriptor {
            what: "an event queue",
            source,
        })?;
    if !is_client {
        // For what blocks it has a pool, which panics where it cannot have its first thread, and
        // waits where it cannot have another.
        drop(runtime.spawn_blocking(|| ()));
    }
    Ok((runtime, screen))
}

/// Says why nothing can be run, with the least that can be had.
fn refuse_at_once(arguments: &ExecArguments, class: ErrorClass, sentence: &str) -> u8 {
    let outcome = Outcome::not_run(class, sentence, KernelReport::none());
    let told = if arguments.json {
        json_line(&outcome)
    } else {
        writeln!(io::stderr(), "warmcell: {sentence}")
    };
    if let Some(error) = told.err().filter(|_| arguments.json) {
        return exit::unwritten(&error);
    }
    exit::of(&outcome)
}

async fn exec(
    arguments: &ExecArguments,
    named: Option<String>,
    (settings, configuration): (Settings, &Configuration),
    mut screen: Screen,
    mut beforehand: Vec<String>,
) -> u8 {
    // From here on a signal interrupts cells, it does not end us.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            let sentence = format!("cannot watch for signals: {error}");
            drop(timeout(BESIDE, screen.notice(&sentence)).await);
            return exit::UNAVAILABLE;
        }
    };
    let warnings = configuration.warnings();
    beforehand.extend(warnings.iter().cloned());
    for sentence in beforehand {
        if !told(&mut screen, &mut signals, 0, &sentence).await {
            return exit::INTERRUPTED;
        }
    }
    let Some(cells) = signals.unless_one_comes(source::cells(arguments)).await else {
        let sentence = "interrupted while the code was read; no cell was run".to_owned();
        let session = named.as_deref();
        let refusal = refuse(
            arguments,
            session,
            &mut screen,
            ErrorClass::Interrupted,
            sentence,
        );
        return timeout(BESIDE, refusal).await.unwrap_or(exit::INTERRUPTED);
    };
    let session = named.clone();
    let prepared = cells
        .map_err(|sentence| with_advice(arguments, named.as_deref(), sentence))
        .and_then(|cells| {
            if arguments.reset && cells.iter().all(|cell| cell.trim().is_empty()) {
                let sentence = "the code is empty; give Python source".to_owned();
                return Err(with_advice(arguments, named.as_deref(), sentence));
            }
            possible(arguments, named.as_deref(), cells.len())?;
            let (mut caller, grant) = (surroundings::caller(arguments)?, grant(arguments)?);
            with_tools(&caller, &grant)?;
            if named.is_some() {
                surroundings::name_passed(&mut caller, &settings.passed_variables);
            }
            let values = &configuration.values;
            caller.limits = surroundings::configured_limits(values, own_limits());
            Ok((cells, caller, grant))
        })
        .map_err(|sentence| (ErrorClass::Usage, sentence));
    let terms = CellTerms::of(arguments, &settings);
    let started = match prepared {
        Ok((cells, caller, grant)) => {
            let place = arguments.cwd.as_ref().map(|_named| caller.cwd.clone());
            match start_kernels(arguments, named, caller, settings).await {
                Ok(kernels) => Ok((kernels, cells, grant, place)),
                Err(refused) => Err(refused),
            }
        }
        Err(refused) => Err(refused),
    };
    let (kernels, cells, grant, place) = match started {
        Ok(started) => started,
        Err((class, sentence)) => {
            let taken = screen.taken();
            let session = session.as_deref();
            let refusal = refuse(arguments, session, &mut screen, class, sentence);
            let code = signals.while_read(&taken, false, refusal).await;
            return code.unwrap_or(exit::INTERRUPTED);
        }
    };
    let mut is_read = true;
    for notice in kernels
        .notices()
        .into_iter()
        .chain(surroundings::unset(arguments))
    {
        is_read = is_read && told(&mut screen, &mut signals, 0, &notice).await;
    }
    let code = if is_read {
        let order = Order {
            cells,
            grant,
            place,
            terms,
            warnings,
        };
        row(arguments, &kernels, order, &mut screen, &mut signals).await
    } else {
        exit::INTERRUPTED
    };
    kernels.shut_down().await;
    code
}

/// Who resets and gives no code wants no cell.
fn with_advice(arguments: &ExecArguments, named: Option<&str>, sentence: String) -> String {
    match named {
        Some(name) if arguments.reset => format!(
            "{sentence}; to reset a session and run nothing say `warmcell sessions reset {name}`"
        ),
        _ => sentence,
    }
}

/// Whether the arguments go together.
fn possible(arguments: &ExecArguments, named: Option<&str>, cells: usize) -> Result<(), String> {
    match named {
        Some(name) => drop(SessionName::parse(name).map_err(|error| error.to_string())?),
        None if arguments.reset || arguments.detach => {
            let option = if arguments.reset {
                "--reset"
            } else {
                "--detach"
            };
            return Err(format!("{option} needs a session: say which with -s NAME"));
        }
        None => {}
    }
    if arguments.detach && cells > 1 {
        return Err(
            "--detach takes one cell: of several the next runs only if the one before succeeds"
                .to_owned(),
        );
    }
    Ok(())
}

async fn start_kernels(
    arguments: &ExecArguments,
    named: Option<String>,
    caller: Caller,
    settings: Settings,
) -> Result<Kernels, (ErrorClass, String)> {
    if let Some(name) = named {
        let directory = arguments.cwd.as_ref().map(|_named| caller.cwd.clone());
        let here = surroundings::directory();
        let paths = [Some(&caller.cwd), here.as_ref(), caller.python.as_ref()];
        if let Some(odd) = paths.into_iter().flatten().find(|it| it.to_str().is_none()) {
            let sentence = format!(
                "the background server takes paths in UTF-8 alone, and {} is none; leave -s out, or go \
                 elsewhere",
                odd.display()
            );
            return Err((ErrorClass::Usage, sentence));
        }
        let home = surroundings::home();
        let limits = caller.limits.clone().unwrap_or_else(own_limits);
        let passed = &settings.passed_variables;
        let remote = Remote::new(name, home, caller, limits, here, directory, passed);
        return Ok(Kernels::Server(Box::new(remote)));
    }
    let failed = |error: SessionError| (error.class(), error.to_string());
    let settings = Settings {
        // Between its cells it may wait for a slow reader, as long as that takes.
        kernel_idle_timeout: None,
        // A cell that has cost its kernel is the last.
        restarts: false,
        ..settings
    };
    // Only what has to be said makes the file; it costs nothing otherwise.
    drop(log_when_needed(&settings.home, settings.log_level));
    let registry = Registry::start(settings).await.map_err(failed)?;
    match registry.session("exec", &caller) {
        Ok(session) => Ok(Kernels::Own {
            registry: Box::new(registry),
            session,
        }),
        Err(error) => {
            registry.shut_down().await;
            Err(failed(error))
        }
    }
}

fn grant(arguments: &ExecArguments) -> Result<Grant, String> {
    if arguments.no_tools {
        return Ok(Grant::Only(std::collections::BTreeSet::new()));
    }
    let Some(names) = &arguments.tools else {
        return Ok(Grant::All);
    };
    let names: std::collections::BTreeSet<String> = names
        .iter()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let grant = Grant::Only(names);
    match ToolTable::standard().check(&grant) {
        Ok(()) => Ok(grant),
        Err(error) => Err(format!("--tools: {error}")),
    }
}

/// Whether the kernel that was asked for can have the tools that were.
fn with_tools(caller: &Caller, grant: &Grant) -> Result<(), String> {
    let other = caller.kernel.as_ref().filter(|it| it.is_another_language());
    let Some(kernel) = other.filter(|_| grant.names_some()) else {
        return Ok(());
    };
    Err(format!(
        "--tools: cells of the kernel {} are {}, and only Python can call tools; leave them out",
        kernel.name, kernel.language
    ))
}

async fn refuse(
    arguments: &ExecArguments,
    session: Option<&str>,
    screen: &mut Screen,
    class: ErrorClass,
    sentence: String,
) -> u8 {
    // People are told the sentence alone.
    let kernel = match session.filter(|_| arguments.json) {
        Some(name) => surroundings::home().kernel(name).await,
        None => KernelReport::none(),
    };
    let outcome = Outcome::not_run(class, sentence, kernel);
    let code = exit::of(&outcome);
    if arguments.json {
        return match screen.json(&outcome).await {
            Ok(()) => code,
            Err(error) => {
                if let Some(sentence) = streams::unwritten(&error) {
                    screen.notice(&sentence).await;
                }
                exit::STDOUT_CLOSED
            }
        };
    }
    screen
        .notice(outcome.error.as_deref().unwrap_or_default())
        .await;
    code
}
