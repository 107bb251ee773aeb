-- Twin of algorithm/leaky_bucket.rs: token_bucket's meter, read as a queue. How long an admission
-- waits in the queue follows from the state that it returns.
return token_bucket
