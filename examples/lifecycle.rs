//! What becomes of state: a failure keeps it, a timeout and a reset lose it and say so, two sessions
//! never see each other's. Run it with `cargo run --example lifecycle`.

use std::path::PathBuf;
use std::time::Duration;

use warmcell::config::{Caller, Settings};
use warmcell::session::{Cell, Registry, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::temp_dir().join("warmcell-lifecycle");
    let registry = Registry::start(Settings::new(home)).await?;
    let caller = Caller {
        environment: std::env::vars().collect(),
        cwd: std::env::current_dir()?,
        umask: 0o022,
        limits: None,
        python: std::env::var_os("PYTHON").map(PathBuf::from),
        kernel: None,
        mode: None,
        named: Vec::new(),
    };
    let session = registry.session("main", &caller)?;
    show(
        &session,
        Cell::new("import math\nradius = 2\nmath.pi * radius**2"),
    )
    .await;
    show(&session, Cell::new("radius / 0")).await;
    show(&session, Cell::new("radius")).await;

    let other = registry.session("other", &caller)?;
    show(&other, Cell::new("'radius' in globals()")).await;

    let slow = Cell::new("print('begin')\nwhile True: pass").timeout(Duration::from_millis(200));
    show(&session, slow).await;
    show(&session, Cell::new("radius = 3")).await;
    show(&session, Cell::new("'radius' in globals()").reset()).await;

    registry.shut_down().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn show(session: &Session, cell: Cell) {
    let name = session.name().to_string();
    let code = cell.code.replace('\n', "; ");
    let outcome = session.execute(cell).outcome().await;
    println!("{name}> {code}");
    println!("{}", outcome.output);
    println!(
        "   state {:?}, generation {}",
        outcome.kernel.state, outcome.kernel.generation
    );
}
