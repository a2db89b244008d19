/// Settings of the HTTP API server.
package struct APIConfiguration: Sendable, Equatable {
    /// Address to bind.
    package var host = "127.0.0.1"
    /// 0 lets the system choose.
    package var port = 8_080
    /// Path of the JWKS file with the keys of tokens; without it, `/v1` is not served.
    package var keys: String?
    /// Requirements on tokens.
    package var rules = TokenRules()
    /// Requests of a bearer per second in the long run; 0 for no limit.
    package var rateLimit = 1_000
    /// Requests of a bearer at once.
    package var rateBurst = 2_000
    package var quotas = AppQuotas()
    /// Refused tokens of one address per minute before its tokens are no longer verified; 0 for no limit.
    package var failuresPerMinute = 60
    package var times = ConnectionTimes()
    /// Limits of requests and streams that wait for changes.
    package var waits = TimelineChanges.Limits()
    /// Longest wait for the outcome of an event.
    package var outcomeWait = Duration.seconds(10)
    /// Origins whose pages may call the API from a browser.
    package var corsOrigins: [String] = []

    package init() {}
}
