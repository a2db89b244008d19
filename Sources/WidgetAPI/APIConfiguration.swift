/// How the HTTP API is served.
package struct APIConfiguration: Sendable {
    /// Requests of one bearer.
    package struct Rate: Hashable, Sendable {
        /// A second, in the long run.
        package var limit: Int
        /// At once.
        package var burst: Int

        package init(limit: Int = 1_000, burst: Int = 2_000) {
            self.limit = limit
            self.burst = burst
        }
    }

    /// Address to bind; loopback unless the operator says otherwise.
    package var host: String
    /// 0 lets the system choose.
    package var port: Int
    /// What tokens must say.
    package var rules: TokenRules
    /// Nil: no limit.
    package var rate: Rate?
    /// Refused tokens of one address in a minute; nil: no limit.
    package var failuresPerMinute: Int?
    package var times: ConnectionTimes
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
