/// Environment variables that name an HTTP proxy for a program's requests.
///
/// Freshet does not use a proxy: it checks the address of each connection to a provider or webhook, which a proxy would
/// hide. With such a variable no process and no command makes requests, since they would pass by the proxy that the
/// operator demands.
package enum ProxyVariables {
    private static let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]

    /// Description of the variables that ask for a proxy; nil if there are none, or if `NO_PROXY` exempts everything.
    package static func problem(in environment: [String: String]) -> String? {
        func isSet(_ name: String) -> Bool { environment[name]?.isEmpty == false }
        let set = names.filter(isSet)
        let isExempt = ["NO_PROXY", "no_proxy"].contains { environment[$0] == "*" }
        guard !set.isEmpty, !isExempt else { return nil }
        return
            "\(set.joined(separator: ", ")) in the environment: Freshet sends requests to providers, webhooks and Apple "
            + "directly, and uses no proxy"
    }

    /// How to end the problem.
    package static let advice = "unset it, or set NO_PROXY=*, and allow direct connections"
}
