import Testing
import WidgetModel

@testable import freshet

@Suite("The simulation of queues agrees with what is known of them", .timeLimit(.minutes(5)))
struct QueueNetworkTests {
    private static func single(servers: Int, service: ServiceTime, arrivals: Double) -> QueueNetwork {
        QueueNetwork(
            stations: [.init(name: "station", servers: servers)],
            route: [.init(station: 0, service: service)], arrivals: arrivals)
    }

    private func isNear(_ found: Double, _ expected: Double, within share: Double) -> Bool {
        abs(found - expected) <= share * expected
    }

    @Test("M/M/c: the mean wait is Erlang's", arguments: [(1, 0.5), (1, 0.8), (2, 0.7), (4, 0.85), (16, 0.9)])
    func exponentialService(servers: Int, utilisation: Double) {
        let service = 0.01
        let arrivals = utilisation * Double(servers) / service
        let expected = QueueFormula.meanWaitMMc(arrivals: arrivals, service: service, servers: servers)
        let outcome = Self.single(servers: servers, service: .exponential(service), arrivals: arrivals)
            .simulate(jobs: 400_000, seed: 7)
        #expect(isNear(outcome.loads[0].meanWait, expected, within: 0.06))
        #expect(isNear(outcome.loads[0].utilisation, utilisation, within: 0.02))
        #expect(isNear(outcome.mean, expected + service, within: 0.05))
    }

    @Test("M/D/1: the mean wait is Pollaczek's and Khinchine's", arguments: [0.3, 0.6, 0.9])
    func fixedService(utilisation: Double) {
        let service = 0.002
        let expected = QueueFormula.meanWaitMD1(arrivals: utilisation / service, service: service)
        let outcome = Self.single(servers: 1, service: .fixed(service), arrivals: utilisation / service)
            .simulate(jobs: 400_000, seed: 3)
        #expect(isNear(outcome.loads[0].meanWait, expected, within: 0.06))
    }

    @Test("M/M/1 with feedback: a station that is visited twice has the load of both visits (Jackson)")
    func feedback() {
        let network = QueueNetwork(
            stations: [.init(name: "shared", servers: 1), .init(name: "other", servers: 1)],
            route: [
                .init(station: 0, service: .exponential(0.004)), .init(station: 1, service: .exponential(0.005)),
                .init(station: 0, service: .exponential(0.004)),
            ],
            arrivals: 80)
        let outcome = network.simulate(jobs: 400_000, seed: 11)
        #expect(isNear(outcome.loads[0].utilisation, 0.64, within: 0.02))
        #expect(isNear(outcome.loads[1].utilisation, 0.4, within: 0.02))
        // Jackson: each station is as if alone, with the sum of the streams that come to it.
        let shared = QueueFormula.meanWaitMMc(arrivals: 160, service: 0.004, servers: 1)
        let other = QueueFormula.meanWaitMMc(arrivals: 80, service: 0.005, servers: 1)
        #expect(isNear(outcome.mean, 2 * (shared + 0.004) + other + 0.005, within: 0.06))
        #expect(network.limit?.station == 0)
        #expect(isNear(network.limit?.arrivals ?? 0, 125, within: 0.001))
    }

    @Test("the formulas, where they are known")
    func formulas() {
        // M/M/1: rho / (mu - lambda).
        #expect(isNear(QueueFormula.meanWaitMMc(arrivals: 80, service: 0.01, servers: 1), 0.04, within: 1e-9))
        // Erlang C of two servers at a load of 1 is 1/3.
        #expect(isNear(QueueFormula.meanWaitMMc(arrivals: 1, service: 1, servers: 2), 1.0 / 3, within: 1e-9))
        #expect(isNear(QueueFormula.meanWaitMD1(arrivals: 80, service: 0.01), 0.02, within: 1e-9))
        #expect(QueueFormula.meanWaitMMc(arrivals: 100, service: 0.01, servers: 1) == .infinity)
        #expect(QueueFormula.meanWaitMD1(arrivals: 200, service: 0.01) == .infinity)
    }

    @Test("the same seed gives the same answer, another one another")
    func seeded() {
        let network = Self.single(servers: 3, service: .exponential(0.01), arrivals: 240)
        #expect(network.simulate(jobs: 5_000, seed: 1) == network.simulate(jobs: 5_000, seed: 1))
        #expect(network.simulate(jobs: 5_000, seed: 1) != network.simulate(jobs: 5_000, seed: 2))
    }

    @Test("the heap gives its elements in order")
    func heap() {
        var heap = BinaryHeap<Int>(precedes: <)
        var random = DemoRandom(seed: 5)
        let elements = (0..<500).map { _ in Int.random(in: 0..<100, using: &random) }
        for element in elements { heap.insert(element) }
        var popped: [Int] = []
        while let element = heap.popFirst() { popped.append(element) }
        #expect(popped == elements.sorted())
    }
}

@Suite("The plan for a number of widgets", .timeLimit(.minutes(5)))
struct CapacityPlanTests {
    @Test("ten times the widgets take ten times of what goes with them")
    func decades() {
        let plans = [1e6, 1e7, 1e8].map { CapacityPlan(CapacityPlan.Demand(widgets: $0)) }
        for (small, large) in zip(plans, plans.dropFirst()) {
            #expect(abs(large.peakReloads / small.peakReloads - 10) < 0.001)
            #expect(abs(large.storedBytes / small.storedBytes - 10) < 0.001)
            #expect(abs(large.databaseCores / small.databaseCores - 10) < 0.001)
            #expect(large.partitions >= small.partitions && large.databases >= small.databases)
        }
        #expect(plans[0].databases == 1)
    }

    @Test("nothing is planned to be busier than it should be, and the simulation finds the same")
    func utilisation() {
        for widgets in [1e6, 1e7, 1e8] {
            let plan = CapacityPlan(CapacityPlan.Demand(widgets: widgets))
            let outcome = plan.network.simulate(jobs: 20_000, seed: 1)
            for (index, load) in outcome.loads.enumerated() {
                let demand = plan.network.route.filter { $0.station == index }.reduce(0) { $0 + $1.service.mean }
                let planned = demand * plan.network.arrivals / Double(plan.network.stations[index].servers)
                #expect(planned <= CapacityPlan.utilisation + 0.01, "\(load.name)")
                #expect(abs(load.utilisation - planned) < 0.05, "\(load.name)")
            }
            #expect(outcome.p99 < 10 * plan.demand.providerLatency)
        }
    }

    @Test("a report names what is full first")
    func report() throws {
        let report = CapacityReport(CapacityPlan(CapacityPlan.Demand(widgets: 1e6)), seed: 1)
        let first = try #require(report.first)
        #expect(first.headroom > 1)
        #expect(report.lines.contains { $0.hasPrefix("full first: \(first.name)") })
        #expect(report.json["firstFull"] == .string(first.name))
    }
}
