//! Input that a cell waits for.

use std::sync::Arc;

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

/// What becomes of a prompt before anybody sees it.
type Shown = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The end that goes with a cell: it may ask.
#[derive(Clone)]
pub struct InputSource {
    questions: mpsc::Sender<InputQuestion>,
    shown: Option<Shown>,
}

impl std::fmt::Debug for InputSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InputSource")
            .field("questions", &self.questions)
            .finish_non_exhaustive()
    }
}

/// The end of whoever answers. Dropped, nobody does from then on.
#[derive(Debug)]
pub struct InputQuestions(mpsc::Receiver<InputQuestion>);

/// A pair of ends. A cell waits for one answer at a time, so one question fits in between.
pub fn input_source() -> (InputSource, InputQuestions) {
    let (sender, receiver) = mpsc::channel(1);
    let source = InputSource {
        questions: sender,
        shown: None,
    };
    (source, InputQuestions(receiver))
}

impl InputSource {
    /// The same, whose prompts are changed before anybody sees them.
    #[must_use]
    pub fn showing(mut self, shown: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.shown = Some(Arc::new(shown));
        self
    }

    /// Hands a question on; the answer never comes if it cannot be.
    pub(super) fn ask(&self, prompt: String, password: bool) -> oneshot::Receiver<String> {
        let (answer, answered) = oneshot::channel();
        let prompt = match &self.shown {
            Some(shown) => shown(&prompt),
            None => prompt,
        };
        let question = InputQuestion {
            prompt,
            password,
            answer,
        };
        // With its sender gone the question is not answered.
        self.questions.try_send(question).ok();
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
