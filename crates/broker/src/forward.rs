//! The queue contract for handles of an engine, and conversions of a backend's errors.

/// Implements the queue contract for a handle with a field `engine`, an `Arc` of the backend's engine.
///
/// Every call is the engine's method of the same name, and the engine has a tokio `runtime`. Calls that change something run in a
/// task of their own, so that a cancelled call does not leave them half done. A publish is not retried by the engine, and a receive
/// is cancel-safe by itself: those two run in the caller's task.
#[macro_export]
macro_rules! forward_to_engine {
    ($handle:ty) => {
        impl $handle {
            async fn detached<T: Send + 'static>(
                &self,
                call: impl Future<Output = Result<T, $crate::BrokerError>> + Send + 'static,
            ) -> Result<T, $crate::BrokerError> {
                self.engine.runtime.spawn(call).await.unwrap_or(Err($crate::BrokerError::Closed))
            }
        }

        #[async_trait::async_trait]
        impl $crate::Broker for $handle {
            fn guarantees(&self) -> $crate::Guarantees {
                self.engine.guarantees()
            }

            async fn declare(&self, queues: &[$crate::QueueSpec]) -> Result<(), $crate::BrokerError> {
                let (engine, queues) = (self.engine.clone(), queues.to_vec());
                self.detached(async move { engine.declare(&queues).await }).await
            }

            fn reachable(&self) -> Result<(), $crate::BrokerError> {
                Ok(self.engine.check_reachable()?)
            }

            async fn publish(&self, batch: Vec<$crate::Outgoing>) -> Vec<Result<(), $crate::PublishError>> {
                if batch.is_empty() {
                    return Vec::new();
                }
                self.engine.publish(batch).await
            }

            async fn receive(
                &self,
                queue: &$crate::QueueName,
                max: usize,
                wait: std::time::Duration,
            ) -> Result<Vec<$crate::Delivery>, $crate::BrokerError> {
                self.engine.receive(queue, max, wait).await
            }

            async fn settle(
                &self,
                verdicts: Vec<($crate::Receipt, $crate::Verdict)>,
            ) -> Vec<Result<$crate::SettleOutcome, $crate::SettleError>> {
                let count = verdicts.len();
                if count == 0 {
                    return Vec::new();
                }
                let engine = self.engine.clone();
                let settled = self.engine.runtime.spawn(async move { engine.settle(verdicts).await });
                settled.await.unwrap_or_else(|_| vec![Err($crate::SettleError::Closed); count])
            }

            async fn extend(
                &self,
                receipts: &[$crate::Receipt],
                lease: std::time::Duration,
            ) -> Vec<Result<(), $crate::SettleError>> {
                self.engine.extend(receipts, lease).await
            }

            async fn mark_solo(&self, receipt: &$crate::Receipt) -> Result<(), $crate::SettleError> {
                let (engine, receipt) = (self.engine.clone(), receipt.clone());
                let marked = self.engine.runtime.spawn(async move { engine.mark_solo(receipt).await });
                marked.await.unwrap_or(Err($crate::SettleError::Closed))
            }

            async fn close(&self) -> Result<(), $crate::BrokerError> {
                let engine = self.engine.clone();
                self.detached(async move {
                    engine.close().await;
                    Ok(())
                })
                .await
            }
        }

        #[async_trait::async_trait]
        impl $crate::QueueAdmin for $handle {
            async fn queues(&self) -> Result<Vec<$crate::QueueSpec>, $crate::BrokerError> {
                self.engine.check_open()?;
                Ok(self.engine.queues.all().iter().map(|local| local.spec()).collect())
            }

            async fn depth(&self, queue: &$crate::QueueName) -> Result<$crate::Depth, $crate::BrokerError> {
                self.engine.depth(queue).await
            }

            async fn pending(&self, queue: &$crate::QueueName) -> Result<u64, $crate::BrokerError> {
                self.engine.pending(queue).await
            }

            async fn purge(&self, queue: &$crate::QueueName) -> Result<u64, $crate::BrokerError> {
                let (engine, queue) = (self.engine.clone(), queue.clone());
                self.detached(async move { engine.purge(&queue).await }).await
            }

            async fn pause(&self, queue: &$crate::QueueName) -> Result<(), $crate::BrokerError> {
                let (engine, queue) = (self.engine.clone(), queue.clone());
                self.detached(async move { engine.pause(&queue).await }).await
            }

            async fn resume(&self, queue: &$crate::QueueName) -> Result<(), $crate::BrokerError> {
                let (engine, queue) = (self.engine.clone(), queue.clone());
                self.detached(async move { engine.resume(&queue).await }).await
            }
        }

        #[async_trait::async_trait]
        impl $crate::DeadLetters for $handle {
            async fn dead_letters(
                &self,
                queue: &$crate::QueueName,
                filter: &$crate::DeadLetterFilter,
                after: Option<&$crate::DeadLetterId>,
                limit: usize,
            ) -> Result<$crate::DeadLetterPage, $crate::BrokerError> {
                let (engine, queue) = (self.engine.clone(), queue.clone());
                let (filter, after) = (filter.clone(), after.cloned());
                let page = async move { engine.dead_letters(&queue, &filter, after.as_ref(), limit).await };
                self.detached(page).await
            }

            async fn replay(
                &self,
                queue: &$crate::QueueName,
                filter: &$crate::DeadLetterFilter,
            ) -> Result<$crate::ReplayOutcome, $crate::BrokerError> {
                let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
                self.detached(async move { engine.replay(&queue, &filter).await }).await
            }

            async fn drop_dead_letters(
                &self,
                queue: &$crate::QueueName,
                filter: &$crate::DeadLetterFilter,
            ) -> Result<u64, $crate::BrokerError> {
                let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
                self.detached(async move { engine.drop_dead_letters(&queue, &filter).await }).await
            }
        }
    };
}

/// Converts an error of a backend to those of the contract: a variant to `Closed`, if one is named, and the others to `Unavailable`
/// with their text.
#[macro_export]
macro_rules! convert_errors {
    ($error:ty $(, $closed:pat)?) => {
        $crate::convert_errors!(@ $error, [$($closed)?], BrokerError, PublishError, SettleError);
    };
    (@ $error:ty, $closed:tt, $($target:ident),*) => {
        $(impl From<$error> for $crate::$target {
            fn from(error: $error) -> Self {
                $crate::convert_errors!(@closed error, $closed, $target);
                $crate::$target::Unavailable { detail: error.to_string() }
            }
        })*
    };
    (@closed $value:ident, [], $target:ident) => {};
    (@closed $value:ident, [$closed:pat], $target:ident) => {
        if let $closed = $value {
            return $crate::$target::Closed;
        }
    };
}
