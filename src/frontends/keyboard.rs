//! What cells ask of the one who sits before the front end that has sent them.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::sync::Notify;

use super::hub::{Hub, Parent};
use super::outbox::Outbox;
use crate::jupyter::{Channel, input_value};
use crate::kernel::{InputQuestion, InputQuestions};

/// The question of a client's cell that waits for an answer, if one does.
#[derive(Debug, Default)]
pub(super) struct Keyboard(Mutex<Option<InputQuestion>>);

/// Between a cell's question and what it has printed before, which is to be seen before it.
#[derive(Debug, Default)]
pub(super) struct Before {
    wanted: Notify,
    told: Notify,
}

impl Before {
    /// Until everything is told that was printed by now.
    async fn all_told(&self) {
        self.wanted.notify_one();
        self.told.notified().await;
    }

    /// Until somebody wants it told; then [`Before::is_told`] is called.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again: no wish is lost.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub(super) fn is_told(&self) {
        self.told.notify_one();
    }
}

impl Keyboard {
    /// Hands the questions of a cell to its client, for as long as the cell runs.
    pub(super) async fn serve(
        &self,
        hub: &Hub,
        client: &Outbox,
        parent: &Parent,
        questions: Option<InputQuestions>,
        before: &Before,
    ) -> Infallible {
        if let Some(mut questions) = questions {
            loop {
                tokio::select! {
                    question = questions.next() => {
                        let Some(question) = question else { break };
                        let content =
                            json!({ "prompt": question.prompt, "password": question.password });
                        before.all_told().await;
                        *self.waiting() = Some(question);
                        hub.answer(client, Channel::Stdin, "input_request", parent, &content, None);
                    }
                    // Its cell goes on, and nobody answers it any more.
                    () = client.ended() => break,
                }
            }
            // What is asked from now on is told at once that nobody answers.
            drop(questions);
            self.forget();
        }
        std::future::pending().await
    }

    /// The client has answered; false if it was not asked.
    pub(super) fn answer(&self, content: &[u8]) -> bool {
        let Some(question) = self.waiting().take() else {
            return false;
        };
        // What is no text is no answer.
        if let Some(text) = input_value(content) {
            question.answer(&text);
        }
        true
    }

    /// Nobody waits for an answer any more.
    pub(super) fn forget(&self) {
        self.waiting().take();
    }

    fn waiting(&self) -> MutexGuard<'_, Option<InputQuestion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
