/// How the HTTP API is served.
package struct APIConfiguration: Sendable {
    /// Address to bind; loopback unless the operator says otherwise.
    package var host: String
    /// 0 lets the system choose.
    package var port: Int
    /// What callers of `/v1` must present; without one, `/v1` does not exist.
    package var token: BearerToken?

    package init(host: String = "127.0.0.1", port: Int = 8_080, token: BearerToken? = nil) {
        self.host = host
        self.port = port
        self.token = token
    }
}
