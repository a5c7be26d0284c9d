//! Input that a cell waits for.

use std::time::Duration;

use warmcell::execution::{Outcome, Status, Wishes};
use warmcell::kernel::{InputQuestions, input_source};
use warmcell::session::{Cell, Session};

use crate::policy_kit::gentle;
use crate::support::{Manager, SAFETY, assert_shows, on_each_python, run, run_cell};

/// A cell that may ask, and the end of whoever answers.
fn asking(cell: Cell) -> (Cell, InputQuestions) {
    let (source, questions) = input_source();
    let wishes = Wishes {
        input: Some(source),
        ..Wishes::default()
    };
    (cell.wishes(wishes), questions)
}

/// Runs a cell; each question is answered by the next text.
async fn answered(session: &Session, code: &str, texts: &[&str]) -> (Outcome, Vec<(String, bool)>) {
    let (cell, mut questions) = asking(Cell::new(code));
    let mut execution = session.execute(cell);
    let answering = async {
        let mut asked = Vec::new();
        for text in texts {
            let question = questions.next().await.unwrap();
            asked.push((question.prompt.clone(), question.password));
            question.answer(*text);
        }
        asked
    };
    tokio::time::timeout(SAFETY, async {
        let asked = answering.await;
        (execution.outcome().await, asked)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_cell_asks_and_goes_on_with_the_answer() {
    on_each_python(async |session, version| {
        let code = "\
import getpass
print('before', end='')
name = input('name? ')
secret = getpass.getpass()
print(repr(name), repr(secret), repr(input()))";
        let (outcome, asked) = answered(session, code, &["Zoë \"x\"", "pw", ""]).await;
        assert_shows(&outcome, "before'Zoë \"x\"' 'pw' ''\n", version);
        let expected = [("name? ", false), ("Password: ", true), ("", false)];
        assert_eq!(
            asked,
            expected.map(|(p, it)| (p.to_owned(), it)),
            "{version}"
        );
        let (outcome, _) = answered(
            session,
            "import pdb\nx = 5\npdb.set_trace()\ny = 1",
            &["p x + 1", "c"],
        )
        .await;
        assert_eq!(
            outcome.status,
            Status::Success,
            "{version}: {}",
            outcome.output
        );
        assert!(
            outcome.output.contains("6\n"),
            "{version}: {}",
            outcome.output
        );
    })
    .await;
}

#[tokio::test]
async fn without_somebody_who_answers_input_fails_at_once() {
    on_each_python(async |session, version| {
        let outcome = run(session, "input('x')").await;
        let nobody =
            "EOFError: input() cannot be answered: nobody is at the keyboard of this cell.";
        assert!(outcome.error.unwrap().starts_with(nobody), "{version}");
        // Whoever could have answered has gone away.
        let (cell, questions) = asking(Cell::new("input('x')"));
        drop(questions);
        let outcome = run_cell(session, cell).await;
        let gone =
            "EOFError: input() was not answered: the front end gave no input, or has gone away";
        assert!(outcome.error.unwrap().starts_with(gone), "{version}");
        // Or goes away without a word.
        let (cell, mut questions) = asking(Cell::new(
            "try: input('x')\nexcept EOFError: print('eof')\ninput('y')",
        ));
        let mut execution = session.execute(cell);
        let question = questions.next().await.unwrap();
        drop(question);
        questions.next().await.unwrap().answer("text");
        assert_shows(&execution.outcome().await, "eof\n'text'", version);
        let thread = "\
import threading
def ask():
    try: input()
    except EOFError as error: print(error)
thread = threading.Thread(target=ask); thread.start(); thread.join()";
        let (cell, _questions) = asking(Cell::new(thread));
        let outcome = run_cell(session, cell).await;
        assert!(
            outcome
                .output
                .contains("only the code of the cell itself can ask"),
            "{version}: {}",
            outcome.output
        );
    })
    .await;
}

#[tokio::test]
async fn a_cell_that_waits_for_input_can_be_interrupted_and_its_time_holds() {
    on_each_python(async |session, version| {
        run(session, "x = 1").await;
        for _ in 0..5 {
            let (cell, mut questions) = asking(gentle("input('first')"));
            let mut execution = session.execute(cell);
            let question = questions.next().await.unwrap();
            execution.interrupt();
            let outcome = tokio::time::timeout(SAFETY, execution.outcome())
                .await
                .unwrap();
            assert_eq!(outcome.status, Status::Interrupted, "{version}");
            assert!(
                outcome.output.ends_with("[interrupted; state is kept]"),
                "{version}: {}",
                outcome.output
            );
            // An answer that comes too late is not that to the next question.
            question.answer("late");
            let (outcome, asked) = answered(session, "x, input('second')", &["right"]).await;
            assert_shows(&outcome, "(1, 'right')", version);
            assert_eq!(asked[0].0, "second", "{version}");
        }
        let (cell, mut questions) =
            asking(Cell::new("input()").timeout(Duration::from_millis(200)));
        let mut execution = session.execute(cell);
        let _question = questions.next().await.unwrap();
        let outcome = tokio::time::timeout(SAFETY, execution.outcome())
            .await
            .unwrap();
        assert_eq!(outcome.status, Status::Timeout, "{version}");
    })
    .await;
}

#[tokio::test]
async fn displays_and_questions_of_one_cell_do_not_mix() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "\
import threading
stop = threading.Event()
def show():
    while not stop.is_set(): display('t')
thread = threading.Thread(target=show); thread.start()
answers = []
for n in range(20):
    display(n)
    answers.append(input(str(n)))
stop.set(); thread.join()
answers == [str(n * n) for n in range(20)]";
    let texts: Vec<String> = (0..20).map(|n: i32| (n * n).to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (outcome, asked) = answered(&session, code, &texts).await;
    assert_eq!(
        outcome.result.as_deref(),
        Some("True"),
        "{}",
        outcome.output
    );
    assert_eq!(asked[19].0, "19");
    manager.end().await;
}

#[tokio::test]
async fn a_cell_that_was_interrupted_and_asks_again_gets_no_more_input() {
    on_each_python(async |session, version| {
        run(session, "kept = []").await;
        // As a debugger does, which takes the interrupt for one of its command.
        let code = "\
while True:
    try:
        kept.append(input('> '))
    except KeyboardInterrupt:
        kept.append('interrupted')
    except EOFError as error:
        kept.append(str(error))
        break";
        for (code, status) in [
            (code, Status::Interrupted),
            ("import pdb; pdb.set_trace()\nx = 1", Status::Interrupted),
        ] {
            let (cell, mut questions) = asking(gentle(code));
            let mut execution = session.execute(cell);
            let _question = questions.next().await.unwrap();
            execution.interrupt();
            let outcome = tokio::time::timeout(SAFETY, execution.outcome());
            let outcome = outcome.await.unwrap();
            assert_eq!(outcome.status, status, "{version}: {}", outcome.output);
            assert!(
                outcome.output.ends_with("; state is kept]"),
                "{version}: {}",
                outcome.output
            );
        }
        let outcome = run(session, "kept").await;
        let told = "['interrupted', 'input() cannot be answered: the cell was interrupted, and \
                    is to end']";
        assert_shows(&outcome, told, version);
        // The next cell is another matter.
        let (outcome, _) = answered(session, "input()", &["yes"]).await;
        assert_shows(&outcome, "'yes'", version);
    })
    .await;
}
