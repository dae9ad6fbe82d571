//! Answers that many browsers ask for at the same time: the agents are asked once, and the rest get the same answer.
//!
//! A page asks again each second or two, and each of its questions is one to every agent. An answer is shared for less
//! than that, among callers who would get the same one.

use crate::problem::{Answer, Problem};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use documents::links::CallerDoc;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as Turns;
use tokio::time::Instant;

/// How long an answer is shared after it came.
const LIFE: Duration = Duration::from_millis(400);
/// The most answers that are kept.
const MOST: usize = 64;

/// One answer, and when it came; the lock is held while it is asked for.
type SharedAnswer = Arc<Turns<Option<(Instant, Bytes)>>>;

/// The answers, by question and whose.
#[derive(Debug, Default)]
pub(crate) struct SharedAnswers(Mutex<BTreeMap<String, SharedAnswer>>);

impl SharedAnswers {
    /// The key of a question that each caller is answered differently.
    pub(crate) fn of_caller(question: &str, caller: &CallerDoc) -> String {
        // No name or group has a control character.
        format!("{question}\n{}\n{}\n{}", caller.name, caller.role, caller.groups.join("\n"))
    }

    fn entry(&self, key: &str) -> SharedAnswer {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(key) {
            // Who waits for one keeps it.
            all.clear();
        }
        all.entry(key.to_owned()).or_default().clone()
    }

    /// The answer to a question: the one that just came, or a new one. What failed is asked again.
    pub(crate) async fn get<T: Serialize>(
        &self,
        key: &str,
        ask: impl Future<Output = Answer<T>>,
    ) -> Answer<Response<Body>> {
        let entry = self.entry(key);
        let mut kept = entry.lock().await;
        if let Some((_, text)) = kept.as_ref().filter(|(came, _)| came.elapsed() < LIFE) {
            return Ok(json(text.clone()));
        }
        let text = serde_json::to_vec(&ask.await?).map_err(|error| Problem::unavailable(error.to_string()))?;
        let text = Bytes::from(text);
        *kept = Some((Instant::now(), text.clone()));
        Ok(json(text))
    }
}

fn json(text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[tokio::test]
    async fn those_who_ask_at_once_are_answered_by_one_question() {
        let (answers, asked) = (SharedAnswers::default(), AtomicU32::new(0));
        let ask = async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(asked.fetch_add(1, Relaxed))
        };
        let (a, b) = tokio::join!(answers.get("q", ask()), answers.get("q", ask()));
        assert!(a.is_ok() && b.is_ok() && asked.load(Relaxed) == 1);
        tokio::time::sleep(LIFE).await;
        assert!(answers.get("q", ask()).await.is_ok() && asked.load(Relaxed) == 2, "an old answer is none");
        assert!(answers.get("other", ask()).await.is_ok() && asked.load(Relaxed) == 3);
        let failed = async || Err::<u32, _>(Problem::unavailable("away"));
        assert!(answers.get("bad", failed()).await.is_err() && answers.get("bad", ask()).await.is_ok());
        for n in 0..200 {
            assert!(answers.get(&n.to_string(), ask()).await.is_ok());
        }
        assert!(answers.0.lock().unwrap().len() <= MOST);
    }
}
