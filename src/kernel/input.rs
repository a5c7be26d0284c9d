//! Input that a cell waits for.

use tokio::sync::{mpsc, oneshot};

/// A question of a cell's to whoever is at its keyboard. Dropped, nobody answers: the cell gets an
/// `EOFError`.
#[derive(Debug)]
pub struct InputQuestion {
    /// What to ask, at most 50,000 bytes.
    pub prompt: String,
    /// Whether the answer is not to be seen.
    pub password: bool,
    pub(super) answer: oneshot::Sender<String>,
}

impl InputQuestion {
    /// Answers it, without a line end. A cell that does not wait any more does not hear it.
    pub fn answer(self, text: impl Into<String>) {
        // It was interrupted, or its time was up.
        self.answer.send(text.into()).ok();
    }
}

/// The end that goes with a cell: it may ask.
#[derive(Debug, Clone)]
pub struct InputSource(mpsc::Sender<InputQuestion>);

/// The end of whoever answers. Dropped, nobody does from then on.
#[derive(Debug)]
pub struct InputQuestions(mpsc::Receiver<InputQuestion>);

/// A pair of ends. A cell waits for one answer at a time, so one question fits in between.
pub fn input_source() -> (InputSource, InputQuestions) {
    let (sender, receiver) = mpsc::channel(1);
    (InputSource(sender), InputQuestions(receiver))
}

impl InputSource {
    /// Hands a question on; the answer never comes if it cannot be.
    pub(super) fn ask(&self, prompt: String, password: bool) -> oneshot::Receiver<String> {
        let (answer, answered) = oneshot::channel();
        let question = InputQuestion {
            prompt,
            password,
            answer,
        };
        // With its sender gone the question is not answered.
        self.0.try_send(question).ok();
        answered
    }
}

impl InputQuestions {
    /// The next question; `None` once the cell has ended and nobody can ask any more.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn next(&mut self) -> Option<InputQuestion> {
        self.0.recv().await
    }
}
