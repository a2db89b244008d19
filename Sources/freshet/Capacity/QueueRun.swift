/// One run of a simulation.
struct QueueRun {
    /// A job comes to a visit of its route, or ends one.
    private struct Event {
        var time: Double
        /// Of events at one time, the one that was made first comes first.
        var order: Int
        var job: Int
        var visit: Int
        var isEnd: Bool

        static func precedes(_ left: Event, _ right: Event) -> Bool {
            left.time == right.time ? left.order < right.order : left.time < right.time
        }
    }

    private struct Server {
        var free: Int
        var queue: [(job: Int, visit: Int, since: Double)] = []
        var head = 0
        var busy = 0.0
        var waited = 0.0
        var visits = 0
        var longest = 0

        var waiting: Int { queue.count - head }
    }

    private let network: QueueNetwork
    private let counted: Range<Int>
    private var random: DemoRandom
    private var heap = BinaryHeap<Event>(precedes: Event.precedes)
    private var servers: [Server]
    private var began: [Double] = []
    private var times: [Double] = []
    private var order = 0
    private var start = 0.0
    private var now = 0.0

    init(network: QueueNetwork, jobs: Int, warmUp: Int, seed: UInt64) {
        self.network = network
        counted = warmUp..<(warmUp + jobs)
        random = DemoRandom(seed: seed)
        servers = network.stations.map { Server(free: $0.servers) }
        times.reserveCapacity(jobs)
    }

    mutating func outcome() -> QueueNetwork.Outcome {
        arrive(after: 0)
        while let event = heap.popFirst() {
            now = event.time
            if event.isEnd { end(event) } else { come(event) }
        }
        times.sort()
        let span = max(now - start, .leastNormalMagnitude)
        return QueueNetwork.Outcome(
            loads: zip(network.stations, servers).map { station, server in
                QueueNetwork.Load(
                    name: station.name, utilisation: server.busy / (span * Double(station.servers)),
                    meanWait: server.visits == 0 ? 0 : server.waited / Double(server.visits),
                    longestQueue: server.longest)
            },
            p50: quantile(0.5), p99: quantile(0.99), mean: times.reduce(0, +) / Double(max(1, times.count)))
    }

    private func quantile(_ share: Double) -> Double {
        times.isEmpty ? 0 : times[min(times.count - 1, Int(Double(times.count) * share))]
    }

    private mutating func push(_ time: Double, job: Int, visit: Int, isEnd: Bool) {
        heap.insert(Event(time: time, order: order, job: job, visit: visit, isEnd: isEnd))
        order += 1
    }

    private mutating func arrive(after time: Double) {
        guard began.count < counted.upperBound else { return }
        let arrival = time + ServiceTime.exponential(1 / network.arrivals).sample(&random)
        if began.count == counted.lowerBound { start = arrival }
        began.append(arrival)
        push(arrival, job: began.count - 1, visit: 0, isEnd: false)
    }

    private mutating func come(_ event: Event) {
        if event.visit == 0 { arrive(after: event.time) }
        let station = network.route[event.visit].station
        if servers[station].free > 0 {
            servers[station].free -= 1
            serve(event.job, event.visit, since: event.time)
        } else {
            servers[station].queue.append((event.job, event.visit, event.time))
            if counted.contains(event.job) {
                servers[station].longest = max(servers[station].longest, servers[station].waiting)
            }
        }
    }

    private mutating func serve(_ job: Int, _ visit: Int, since: Double) {
        let (station, service) = (network.route[visit].station, network.route[visit].service.sample(&random))
        if counted.contains(job) {
            servers[station].busy += service
            servers[station].waited += now - since
            servers[station].visits += 1
        }
        push(now + service, job: job, visit: visit, isEnd: true)
    }

    private mutating func end(_ event: Event) {
        let station = network.route[event.visit].station
        if servers[station].waiting > 0 {
            let next = servers[station].queue[servers[station].head]
            servers[station].head += 1
            if servers[station].head > 1_024, servers[station].head * 2 > servers[station].queue.count {
                servers[station].queue.removeFirst(servers[station].head)
                servers[station].head = 0
            }
            serve(next.job, next.visit, since: next.since)
        } else {
            servers[station].free += 1
        }
        if event.visit + 1 < network.route.count {
            push(event.time, job: event.job, visit: event.visit + 1, isEnd: false)
        } else if counted.contains(event.job) {
            times.append(event.time - began[event.job])
        }
    }
}

/// The least element first.
struct BinaryHeap<Element> {
    private var elements: [Element] = []
    private let precedes: (Element, Element) -> Bool

    init(precedes: @escaping (Element, Element) -> Bool) {
        self.precedes = precedes
    }

    mutating func insert(_ element: Element) {
        elements.append(element)
        var child = elements.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard precedes(elements[child], elements[parent]) else { return }
            elements.swapAt(child, parent)
            child = parent
        }
    }

    mutating func popFirst() -> Element? {
        guard let first = elements.first else { return nil }
        let last = elements.removeLast()
        guard !elements.isEmpty else { return first }
        elements[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < elements.count {
                if precedes(elements[child], elements[least]) { least = child }
            }
            guard least != parent else { return first }
            elements.swapAt(parent, least)
            parent = least
        }
    }
}
