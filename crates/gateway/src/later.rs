//! Dependency that connects while the process serves, or that the process does not have.

use std::{fmt, sync::Arc};
use tokio::sync::SetOnce;

/// Handle of a dependency that connects later, or that is absent in this process. Clones share their state.
pub struct Later<T: ?Sized>(Arc<State<T>>);

enum State<T: ?Sized> {
    /// Empty until the dependency is connected.
    Expected(SetOnce<Arc<T>>),
    /// Why this process does not have it.
    Absent(String),
}

impl<T: ?Sized> Later<T> {
    /// Dependency that is not connected yet.
    pub fn new() -> Self {
        Self(Arc::new(State::Expected(SetOnce::new())))
    }

    /// Dependency that is connected.
    pub fn ready(dependency: Arc<T>) -> Self {
        Self(Arc::new(State::Expected(SetOnce::new_with(Some(dependency)))))
    }

    /// Dependency that this process does not have. The reason is the detail of the response to requests that need it.
    pub fn absent(reason: impl Into<String>) -> Self {
        Self(Arc::new(State::Absent(reason.into())))
    }

    /// Sets the connected dependency. Later calls are ignored, and so are calls for an absent dependency.
    pub fn set(&self, dependency: Arc<T>) {
        if let State::Expected(cell) = &*self.0 {
            let _ = cell.set(dependency);
        }
    }

    /// Dependency, if it is connected.
    pub fn get(&self) -> Option<Arc<T>> {
        match &*self.0 {
            State::Expected(cell) => cell.get().cloned(),
            State::Absent(_) => None,
        }
    }

    /// Waits for the connection; `None` at once for an absent dependency.
    pub async fn connected(&self) -> Option<Arc<T>> {
        match &*self.0 {
            State::Expected(cell) => Some(cell.wait().await.clone()),
            State::Absent(_) => None,
        }
    }

    /// Reason of an absent dependency; `None` for one that is connected or connects later.
    pub fn absent_reason(&self) -> Option<&str> {
        match &*self.0 {
            State::Expected(_) => None,
            State::Absent(reason) => Some(reason),
        }
    }
}

impl<T: ?Sized> Default for Later<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            State::Expected(cell) if cell.initialized() => f.write_str("Connected"),
            State::Expected(_) => f.write_str("Opening"),
            State::Absent(reason) => f.debug_tuple("Absent").field(reason).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clones_share_the_first_connection() {
        let later: Later<str> = Later::new();
        let waiting = tokio::spawn({
            let later = later.clone();
            async move { later.connected().await }
        });
        tokio::task::yield_now().await;
        assert_eq!((later.get(), format!("{later:?}")), (None, "Opening".to_owned()));
        later.clone().set("first".into());
        later.set("second".into());
        assert_eq!(later.get().as_deref(), Some("first"));
        assert_eq!(waiting.await.unwrap().as_deref(), Some("first"));
        assert_eq!(Later::<str>::ready("at once".into()).get().as_deref(), Some("at once"));
    }

    #[tokio::test]
    async fn an_absent_dependency_stays_absent() {
        let later: Later<str> = Later::absent("not in this process");
        later.set("late".into());
        assert_eq!((later.get(), later.connected().await), (None, None));
        assert_eq!(later.absent_reason(), Some("not in this process"));
        assert_eq!(Later::<str>::new().absent_reason(), None);
    }
}
