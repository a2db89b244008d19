// SPDX-License-Identifier: Apache-2.0

/// Open circuit breakers of a provider, as the worker processes have stored them.
package struct ProviderOutage: Hashable, Sendable {
    /// URL of the provider.
    package let provider: String
    /// Time at which the first of the breakers opened.
    package let since: Timestamp
    /// Time from which a process may probe the provider.
    package let probeAt: Timestamp
    /// Reason and message of the latest failed request.
    package let message: String
    /// Number of worker processes with an open breaker.
    package let processes: Int
    /// Number of all worker processes.
    package let workers: Int

    package init(
        provider: String, since: Timestamp, probeAt: Timestamp, message: String, processes: Int, workers: Int
    ) {
        (self.provider, self.since, self.probeAt, self.message) = (provider, since, probeAt, message)
        (self.processes, self.workers) = (processes, workers)
    }

    /// Whether no process sends the provider requests.
    package var isEverywhere: Bool { processes >= workers }

    /// `provider URL, which gets no requests since …: message; next probe …`
    package func words(from now: Timestamp) -> String {
        let who = isEverywhere ? "" : " from \(processes) of \(workers) worker processes"
        let probe = probeAt > now ? probeAt.words(from: now) : "with the next request"
        return "provider \(provider), which gets no requests\(who) since \(since.wholeSeconds): \(message); "
            + "next probe \(probe)"
    }
}
