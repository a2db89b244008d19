// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import PostgresClient
import Synchronization
import TestSupport

/// Injects the faults of a schedule.
final class FaultDriver: Sendable {
    private let fleet: Fleet
    private let server: ChaosPostgres
    private let kafka: ChaosKafka
    private let provider: ChaosProvider
    private let devices: ChaosDevices
    private let workload: Workload
    private let markers: TransactionMarkers?
    private let front: GoAwayFront
    private let pool: PostgresPool
    private let report: ChaosReport
    /// Prevents concurrent crashes.
    private let isCrashed = Mutex(false)
    /// Number of faults that hold each resource; the last one to end heals it.
    private let holds = Mutex<[String: Int]>([:])

    init(
        fleet: Fleet, server: ChaosPostgres, kafka: ChaosKafka, provider: ChaosProvider, devices: ChaosDevices,
        workload: Workload, markers: TransactionMarkers?, front: GoAwayFront, pool: PostgresPool,
        report: ChaosReport
    ) {
        self.fleet = fleet
        self.server = server
        self.kafka = kafka
        self.provider = provider
        self.devices = devices
        self.workload = workload
        self.markers = markers
        self.front = front
        self.pool = pool
        self.report = report
    }

    /// Injects all faults; returns when the last one is over.
    func run(_ schedule: FaultSchedule) async throws {
        let begin = ContinuousClock.now
        try await withThrowingDiscardingTaskGroup { group in
            for fault in schedule.faults {
                try await Task.sleep(until: begin + fault.start)
                group.addTask { try await self.happen(fault) }
            }
        }
    }

    /// Heals all faults.
    func heal() async throws {
        for member in fleet.members { member.thaw() }
        fleet.guest.retire()
        fleet.healNetwork()
        provider.heal()
        devices.set(nil)
        front.set(requestsPerConnection: nil)
        if let embedded = kafka.embedded {
            for broker in kafka.brokerPorts.indices {
                try embedded.startBroker(Int32(broker + 1))
                try embedded.setRoundTripTime(broker: Int32(broker + 1), .zero)
            }
        }
    }

    func crashDatabase(for length: Duration) async throws {
        try await withoutServer {
            try await server.crash()
            try await Task.sleep(for: length)
            try await server.start()
        }
    }

    /// Runs the body unless another one makes the database disappear at this time.
    private func withoutServer(_ body: () async throws -> Void) async throws {
        let isMine = isCrashed.withLock { isCrashed in
            defer { isCrashed = true }
            return !isCrashed
        }
        guard isMine else { return report.say("not done, the database is away") }
        try await body()
        isCrashed.withLock { $0 = false }
    }

    /// Injects a fault; returns when it is over.
    func happen(_ fault: Fault) async throws {
        report.fault(fault.name, fault.description)
        switch fault.sort {
        case .kill(let name): member(name)?.kill(startingAgainAfter: fault.length)
        case .killAll:
            for member in fleet.members { member.kill(startingAgainAfter: fault.length) }
        case .restart(let name): member(name)?.terminate()
        case .freeze(let name):
            member(name)?.freeze()
            try await Task.sleep(for: fault.length)
            member(name)?.thaw()
        case .guest:
            fleet.guest.start()
            try await Task.sleep(for: fault.length)
            fleet.guest.retire()
        case .crashDatabase: try await crashDatabase(for: fault.length)
        case .terminateBackend: await simple(Self.terminate(limit: "1"))
        case .terminateAllBackends: await simple(Self.terminate(limit: "ALL"))
        case .heldTransaction: await hold(Self.openTransaction, for: fault.length)
        case .lockedRows: await hold(Self.lockRows, for: fault.length)
        case .databaseCut(let name): member(name)?.postgres.cut()
        case .databaseDelay(let name, let delay):
            try await during(fault, "\(name) database delay", member(name).map { [$0.postgres] } ?? []) {
                $0.set(delay: delay)
            } over: {
                $0.set(delay: .zero)
            }
        case .databaseHeld(let name): try await flow(.held, fault, member(name).map { [$0.postgres] })
        case .databaseHalfOpen(let name): try await flow(.swallowed, fault, member(name).map { [$0.postgres] })
        case .databaseUnreachable(let name): try await flow(.refused, fault, member(name).map { [$0.postgres] })
        case .brokersCut(let name): for proxy in member(name)?.brokers ?? [] { proxy.cut() }
        case .brokersDelay(let name, let delay):
            try await during(fault, "\(name) brokers delay", member(name)?.brokers ?? []) {
                $0.set(delay: delay)
            } over: {
                $0.set(delay: .zero)
            }
        case .brokersHeld(let name): try await flow(.held, fault, member(name)?.brokers)
        case .brokersHalfOpen(let name): try await flow(.swallowed, fault, member(name)?.brokers)
        case .brokersUnreachable(let name): try await flow(.refused, fault, member(name)?.brokers)
        case .brokerDown(let broker):
            try await withoutMarkers { try kafka.embedded?.stopBroker(broker) }
            try await Task.sleep(for: fault.length)
            try kafka.embedded?.startBroker(broker)
        case .brokerSlow(let broker, let delay):
            try kafka.embedded?.setRoundTripTime(broker: broker, delay)
            try await Task.sleep(for: fault.length)
            try kafka.embedded?.setRoundTripTime(broker: broker, .zero)
        case .requestErrors(let request, let count): try pushErrors(request, count)
        case .provider(let app, let what):
            provider.set(what, for: app)
            try await Task.sleep(for: fault.length)
            provider.set(nil, for: app)
        case .pushService(let what):
            devices.set(what)
            try await Task.sleep(for: fault.length)
            devices.set(nil)
        case .transactions:
            workload.beginTransactions()
            try await Task.sleep(for: fault.length)
            await workload.endTransactions()
        case .wrongClock(let clock):
            workload.set(clock: clock)
            try await Task.sleep(for: fault.length)
            workload.set(clock: nil)
        case .goAway(let requests):
            front.set(requestsPerConnection: requests)
            try await Task.sleep(for: fault.length)
            front.set(requestsPerConnection: nil)
        case .failover: try await failOver(losing: fault.length)
        }
    }

    /// Numbers of connections that ended with GOAWAY, and of requests on them that were not processed.
    var goAways: (ended: Int, ignored: Int) { front.counts }

    private func failOver(losing length: Duration) async throws {
        try await withoutServer {
            try await server.failOver(losing: length) { report.beginLoss() }
            report.endLoss()
        }
    }

    private func withoutMarkers(_ body: () throws -> Void) async throws {
        guard let markers else { return try body() }
        try await markers.withoutMarkers(body)
    }

    private func member(_ name: String) -> FleetMember? {
        fleet.members.first { $0.name == name }
    }

    // MARK: Network

    private func flow(_ flow: FaultProxy.Flow, _ fault: Fault, _ proxies: [FaultProxy]?) async throws {
        guard let proxies, let first = proxies.first else { return }
        try await during(fault, "\(first.port) flow", proxies) {
            $0.set(flow)
        } over: {
            $0.set(.open)
        }
    }

    private func during(
        _ fault: Fault, _ key: String, _ proxies: [FaultProxy], begin: (FaultProxy) -> Void,
        over: (FaultProxy) -> Void
    ) async throws {
        holds.withLock { $0[key, default: 0] += 1 }
        for proxy in proxies { begin(proxy) }
        try await Task.sleep(for: fault.length)
        let isLast = holds.withLock { holds in
            holds[key, default: 1] -= 1
            return holds[key] == 0
        }
        if isLast { for proxy in proxies { over(proxy) } }
    }

    // MARK: Database

    private static func terminate(limit: String) -> String {
        """
        SELECT pg_terminate_backend(pid) FROM (
            SELECT pid FROM pg_stat_activity WHERE application_name = 'freshet' AND backend_type = 'client backend'
            ORDER BY random() LIMIT \(limit)) b
        """
    }

    /// Holds back the horizon of vacuum with its transaction ID.
    private static let openTransaction = """
        SELECT count(*) FROM timeline; SELECT txid_current()
        """

    /// Locks rows that ingest, workers and the sweeper all need.
    private static let lockRows = """
        SELECT 1 FROM (SELECT id FROM timeline ORDER BY listed_at LIMIT 40) s
            JOIN timeline t USING (id) ORDER BY id FOR UPDATE OF t;
        SELECT 1 FROM kind ORDER BY id LIMIT 2 FOR UPDATE
        """

    /// Ignores a fault that the database refuses because it is down itself.
    private func simple(_ sql: String) async {
        do {
            try await pool.withConnection { try await $0.simple(sql) }
        } catch {
            report.say("not done, the database is away")
        }
    }

    private func hold(_ sql: String, for length: Duration) async {
        do {
            try await pool.withTransaction { connection in
                try await connection.simple(sql)
                try await Task.sleep(for: length)
            }
        } catch {
            report.say("ended early, the database is away")
        }
    }

    // MARK: Kafka

    private func pushErrors(_ request: String, _ count: Int) throws {
        let kinds: [String: KafkaRequestKind] = [
            "produce": .produce, "fetch": .fetch, "listOffsets": .listOffsets, "metadata": .metadata,
            "offsetCommit": .offsetCommit, "findCoordinator": .findCoordinator,
        ]
        guard let kind = kinds[request] else { return }
        let code: KafkaError.Code =
            switch kind {
            case .produce, .fetch:
                count % 3 == 0 ? .disconnect : count % 3 == 1 ? .notLeaderForPartition : .requestTimedOut
            case .offsetCommit:
                count % 2 == 0 ? .notCoordinator : .disconnect
            default: .disconnect
            }
        try kafka.embedded?.pushRequestErrors(kind, Array(repeating: code, count: count))
    }
}
