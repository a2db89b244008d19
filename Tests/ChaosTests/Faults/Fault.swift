// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A fault with a start and a length.
struct Fault: Sendable {
    enum Sort: Sendable {
        case kill(String)
        case freeze(String)
        case restart(String)
        case killAll
        case terminateBackend
        case terminateAllBackends
        case crashDatabase
        case heldTransaction
        case lockedRows
        case databaseCut(String)
        case databaseDelay(String, Duration)
        /// Traffic is held back and delivered at the end.
        case databaseHeld(String)
        case databaseHalfOpen(String)
        case databaseUnreachable(String)
        case brokersCut(String)
        case brokersDelay(String, Duration)
        case brokersHeld(String)
        case brokersHalfOpen(String)
        case brokersUnreachable(String)
        case brokerDown(Int32)
        case brokerSlow(Int32, Duration)
        case requestErrors(String, count: Int)
        case provider(app: String, ProviderFault)
        case pushService(PushFault)
        case guest
        /// Producers end transactions, whose markers take offsets.
        case transactions
        case wrongClock(WrongClock)
        /// A provider's server ends each connection with GOAWAY after a number of requests.
        case goAway(requests: Int)
        /// A standby that lacks the commits of the fault's length takes the database's place.
        case failover
    }

    let number: Int
    /// Time since the beginning.
    let start: Duration
    /// Duration of the fault; for a kill, until a process runs again.
    let length: Duration
    let sort: Sort

    /// Name under which the fault is counted.
    var name: String {
        switch sort {
        case .kill: "SIGKILL"
        case .pushService(let fault): "push service: \(fault)"
        case .freeze: "SIGSTOP, SIGCONT"
        case .restart: "SIGTERM and restart"
        case .killAll: "SIGKILL of all"
        case .terminateBackend: "pg_terminate_backend of one"
        case .terminateAllBackends: "pg_terminate_backend of all"
        case .crashDatabase: "PostgreSQL crash"
        case .heldTransaction: "transaction held open"
        case .lockedRows: "rows locked"
        case .databaseCut: "database connections cut"
        case .databaseDelay: "database delayed"
        case .databaseHeld: "database held back"
        case .databaseHalfOpen: "database half open"
        case .databaseUnreachable: "database unreachable"
        case .brokersCut: "broker connections cut"
        case .brokersDelay: "brokers delayed"
        case .brokersHeld: "brokers held back"
        case .brokersHalfOpen: "brokers half open"
        case .brokersUnreachable: "brokers unreachable"
        case .brokerDown: "broker down"
        case .brokerSlow: "broker slow"
        case .requestErrors: "request errors"
        case .provider(_, let fault):
            switch fault {
            case .status(let code, _): "provider says \(code)"
            case .slow: "provider is slow"
            default: "provider \(fault)"
            }
        case .guest: "ingest joins and leaves"
        case .transactions: "transactional producers"
        case .wrongClock: "wrong clock"
        case .goAway: "provider's server sends GOAWAY"
        case .failover: "failover"
        }
    }

    var description: String {
        let place: String
        switch sort {
        case .kill(let member), .freeze(let member), .restart(let member), .databaseCut(let member),
            .databaseHeld(let member), .databaseHalfOpen(let member), .databaseUnreachable(let member),
            .brokersCut(let member), .brokersHeld(let member), .brokersHalfOpen(let member),
            .brokersUnreachable(let member):
            place = " of \(member)"
        case .databaseDelay(let member, let delay), .brokersDelay(let member, let delay):
            place = " of \(member) by \(delay / .milliseconds(1)) ms"
        case .brokerDown(let broker): place = ": \(broker)"
        case .brokerSlow(let broker, let delay): place = ": \(broker) by \(delay / .milliseconds(1)) ms"
        case .requestErrors(let request, let count): place = ": \(count) of \(request)"
        case .provider(let app, let fault): place = " of \(app) (\(fault))"
        case .goAway(let requests): place = " after \(requests) requests"
        case .wrongClock(let clock): place = " of a producer (\(clock))"
        default: place = ""
        }
        return "fault \(number): \(name)\(place), \(ChaosReport.seconds(length)) s"
    }
}

/// Schedule of faults, as a function of the seed alone.
struct FaultSchedule: Sendable {
    let faults: [Fault]

    init(_ faults: [Fault]) {
        self.faults = faults
    }

    /// - Parameters:
    ///   - interval: Average time between the starts of two faults.
    ///   - hasEmbeddedBrokers: `false` leaves out faults of brokers.
    init(
        seed: UInt64, duration: Duration, interval: Duration, members: [String], apps: [String],
        hasEmbeddedBrokers: Bool
    ) {
        var random = SeededRandom(seed: seed, stream: "faults")
        var faults: [Fault] = []
        var time = Duration.milliseconds(500)
        while time < duration {
            let (sort, length) = Self.draw(
                &random, members: members, apps: apps, hasEmbeddedBrokers: hasEmbeddedBrokers,
                canFailOver: !faults.contains { $0.name == "failover" })
            faults.append(
                Fault(number: faults.count + 1, start: time, length: min(length, .seconds(25)), sort: sort))
            time += random.seconds(0.1...(interval / .milliseconds(1) / 1_000 * 1.9))
        }
        faults += Self.certain(seed: seed, hasEmbeddedBrokers: hasEmbeddedBrokers).filter { $0.start < duration }
        faults.sort { $0.start < $1.start }
        self.faults = faults.enumerated().map { index, fault in
            Fault(number: index + 1, start: fault.start, length: fault.length, sort: fault.sort)
        }
    }

    /// Faults of every run, all in its first seconds, so that a short run has them.
    private static func certain(seed: UInt64, hasEmbeddedBrokers: Bool) -> [Fault] {
        var random = SeededRandom(seed: seed, stream: "certain faults")
        var sorts: [Fault.Sort] = [
            .wrongClock(random.element(WrongClock.allCases)), .goAway(requests: random.integer(1...6)),
        ]
        if hasEmbeddedBrokers { sorts.append(.transactions) }
        return sorts.map { sort in
            Fault(number: 0, start: random.seconds(1...15), length: random.seconds(5...10), sort: sort)
        }
    }

    private enum Choice: CaseIterable {
        case kill, freeze, restart, killAll, terminate, terminateAll, crash, held, locked
        case databaseCut, databaseDelay, databaseHeld, databaseHalfOpen, databaseUnreachable
        case brokersCut, brokersDelay, brokersHeld, brokersHalfOpen, brokersUnreachable
        case brokerDown, brokerSlow, requestErrors, provider, pushService, guest
        case transactions, wrongClock, goAway, failover

        var weight: Int {
            switch self {
            case .kill: 12
            case .freeze: 10
            case .restart: 5
            case .killAll: 2
            case .terminate: 6
            case .terminateAll: 4
            case .crash: 4
            case .held: 2
            case .locked: 4
            case .databaseCut: 6
            case .databaseDelay: 5
            case .databaseHeld: 6
            case .databaseHalfOpen: 4
            case .databaseUnreachable: 3
            case .brokersCut: 5
            case .brokersDelay: 3
            case .brokersHeld: 4
            case .brokersHalfOpen: 4
            case .brokersUnreachable: 3
            case .brokerDown: 3
            case .brokerSlow: 2
            case .requestErrors: 8
            case .provider: 18
            case .pushService: 14
            case .guest: 5
            case .transactions: 5
            case .wrongClock: 4
            case .goAway: 5
            case .failover: 2
            }
        }

        var needsEmbeddedBrokers: Bool {
            switch self {
            case .brokersCut, .brokersDelay, .brokersHeld, .brokersHalfOpen, .brokersUnreachable, .brokerDown,
                .brokerSlow, .requestErrors, .transactions:
                true
            default: false
            }
        }
    }

    private static func draw(
        _ random: inout SeededRandom, members: [String], apps: [String], hasEmbeddedBrokers: Bool,
        canFailOver: Bool
    ) -> (Fault.Sort, Duration) {
        let choices = Choice.allCases.filter { choice in
            (hasEmbeddedBrokers || !choice.needsEmbeddedBrokers) && (canFailOver || choice != .failover)
        }
        let choice = random.element(weighted: choices.map { ($0, $0.weight) })
        let member = random.element(members)
        let broker = Int32(random.integer(1...2))
        switch choice {
        case .kill: return (.kill(member), random.seconds(0...2))
        // Often longer than the lease and the session timeout.
        case .freeze: return (.freeze(member), random.seconds(5...17))
        case .restart: return (.restart(member), .zero)
        case .killAll: return (.killAll, random.seconds(0...2))
        case .terminate: return (.terminateBackend, .zero)
        case .terminateAll: return (.terminateAllBackends, .zero)
        case .crash: return (.crashDatabase, random.seconds(0...4))
        case .held: return (.heldTransaction, random.seconds(10...25))
        case .locked: return (.lockedRows, random.seconds(1...7))
        case .databaseCut: return (.databaseCut(member), .zero)
        case .databaseDelay:
            return (.databaseDelay(member, random.seconds(0.01...0.25)), random.seconds(3...10))
        case .databaseHeld: return (.databaseHeld(member), random.seconds(2...15))
        case .databaseHalfOpen: return (.databaseHalfOpen(member), random.seconds(2...10))
        case .databaseUnreachable: return (.databaseUnreachable(member), random.seconds(1...8))
        case .brokersCut: return (.brokersCut(member), .zero)
        case .brokersDelay: return (.brokersDelay(member, random.seconds(0.01...0.3)), random.seconds(3...10))
        case .brokersHeld: return (.brokersHeld(member), random.seconds(2...10))
        case .brokersHalfOpen: return (.brokersHalfOpen(member), random.seconds(2...10))
        case .brokersUnreachable: return (.brokersUnreachable(member), random.seconds(1...8))
        case .brokerDown: return (.brokerDown(broker), random.seconds(1...7))
        case .brokerSlow: return (.brokerSlow(broker, random.seconds(0.02...0.4)), random.seconds(2...8))
        case .requestErrors:
            return (.requestErrors(random.element(requests), count: random.integer(1...6)), .zero)
        case .provider:
            return (.provider(app: random.element(apps), providerFault(&random)), random.seconds(2...9))
        case .pushService:
            return (.pushService(random.element(PushFault.allCases)), random.seconds(1...5))
        case .guest: return (.guest, random.seconds(5...12))
        case .transactions: return (.transactions, random.seconds(4...12))
        case .goAway: return (.goAway(requests: random.integer(1...6)), random.seconds(3...9))
        // A copy of the database takes seconds and space, so there is at most one.
        case .failover: return (.failover, random.seconds(0.2...2))
        case .wrongClock: return (.wrongClock(random.element(WrongClock.allCases)), random.seconds(4...12))
        }
    }

    static let requests = [
        "produce", "fetch", "listOffsets", "metadata", "offsetCommit", "findCoordinator",
    ]

    private static func providerFault(_ random: inout SeededRandom) -> ProviderFault {
        switch random.integer(0..<10) {
        case 0: .status(500, retryAfter: nil)
        case 1: .status(503, retryAfter: random.integer(1...2))
        case 2: .status(429, retryAfter: random.integer(1...3))
        case 3: .hang
        case 4, 5: .slow(random.seconds(0.2...1.8))
        case 6: .cut
        case 7: .foreignIDs
        case 8: .partial
        default: .garbage
        }
    }
}
