/// Closed forms of queueing theory, to check the simulation against.
enum QueueFormula {
    /// Mean wait in seconds of a queue with Poisson arrivals, exponential service and `servers` servers (Erlang C).
    static func meanWaitMMc(arrivals: Double, service: Double, servers: Int) -> Double {
        let load = arrivals * service
        guard load < Double(servers) else { return .infinity }
        // By Erlang B, which has a recursion that does not overflow.
        var blocking = 1.0
        for server in 1...servers { blocking = load * blocking / (Double(server) + load * blocking) }
        let utilisation = load / Double(servers)
        let waits = blocking / (1 - utilisation * (1 - blocking))
        return waits * service / (Double(servers) * (1 - utilisation))
    }

    /// Mean wait in seconds of one server with Poisson arrivals and service that always takes as long (Pollaczek and
    /// Khinchine).
    static func meanWaitMD1(arrivals: Double, service: Double) -> Double {
        let utilisation = arrivals * service
        guard utilisation < 1 else { return .infinity }
        return utilisation * service / (2 * (1 - utilisation))
    }
}
