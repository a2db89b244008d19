/// Settings of the HTTP API server.
package struct APIConfiguration: Sendable {
    /// Rate limit of one bearer.
    package struct Rate: Hashable, Sendable {
        /// Requests per second in the long run.
        package var limit: Int
        /// Requests at once.
        package var burst: Int

        package init(limit: Int = 1_000, burst: Int = 2_000) {
            self.limit = limit
            self.burst = burst
        }
    }

    /// Address to bind.
    package var host: String
    /// 0 lets the system choose.
    package var port: Int
    /// Requirements on tokens.
    package var rules: TokenRules
    /// Rate limit of each bearer; nil for none.
    package var rate: Rate?
    package var quotas = AppQuotas()
    /// Refused tokens of one address per minute before its tokens are not verified any more; nil for no limit.
    package var failuresPerMinute: Int?
    package var times: ConnectionTimes
    /// Longest wait for the outcome of an event.
    package var outcomeWait = Duration.seconds(10)
    /// Origins whose pages may call the API from a browser; none by default.
    package var corsOrigins: Set<String>

    package init(
        host: String = "127.0.0.1", port: Int = 8_080, rules: TokenRules = TokenRules(), rate: Rate? = Rate(),
        failuresPerMinute: Int? = 60, times: ConnectionTimes = ConnectionTimes(), corsOrigins: Set<String> = []
    ) {
        self.host = host
        self.port = port
        self.rules = rules
        self.rate = rate
        self.failuresPerMinute = failuresPerMinute
        self.times = times
        self.corsOrigins = corsOrigins
    }
}
