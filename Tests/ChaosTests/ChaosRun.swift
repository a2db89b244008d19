// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird
import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import TestSupport
import WidgetStore

/// A run: sets everything up, publishes events during faults, heals the faults and checks the result.
struct ChaosRun: Sendable {
    let options: ChaosOptions
    let label: String
    /// Steps during the workload; nil for the seed's schedule.
    var script: (@Sendable (Stage) async throws -> Void)?

    /// Parts of a run that scripts use.
    struct Stage: Sendable {
        let world: ChaosWorld
        let fleet: Fleet
        let provider: ChaosProvider
        let devices: ChaosDevices
        let driver: FaultDriver
        let workload: Workload
        let report: ChaosReport
        let options: ChaosOptions
    }

    /// - Returns: The report with all violations.
    func run() async throws -> ChaosReport {
        let directory = try RunDirectory(label: label)
        let report = ChaosReport(label: label, directory: directory.url)
        do {
            try await run(in: directory, report)
        } catch {
            report.violated(.liveness, "the run itself failed: \(error)")
        }
        let isKept = report.violations > 0 && options.expected.isEmpty || options.keeps
        if isKept {
            directory.keep()
            report.say("logs are kept in \(directory.url.path)")
        }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                directory.close()
                continuation.resume()
            }
        }
        return report
    }

    private func run(in directory: RunDirectory, _ report: ChaosReport) async throws {
        let logger = Logger(label: "chaos") { _ in SwiftLogNoOpLogHandler() }
        let world = ChaosWorld(
            seed: options.seed, users: 40, movers: 12, crowd: options.crowd, timeout: options.providerTimeout)
        let server = try await ChaosPostgres(in: directory)
        let kafka = try await ChaosKafka(options, logger: logger)
        let provider = ChaosProvider(world: world, seed: options.seed, report: report)
        let devices = try await ChaosDevices(in: directory, world: world)
        let front = try await GoAwayFront.start()
        let roots = directory.url.appendingPathComponent("provider-roots.pem")
        try Data(front.certificatePEM.utf8).write(to: roots)
        let fleet = try Fleet(
            server: server, kafka: kafka, devices: devices, options: options, trustRoots: roots, directory: directory,
            report: report)
        let pool = server.pool("chaos-checker", maximumConnections: 4)
        let faultPool = server.pool("chaos-faults", maximumConnections: 6)
        let inputs = try InputLog(kafka: kafka, world: world, report: report, logger: logger)
        let timelines = try TimelineLog(kafka: kafka, pool: pool, report: report, logger: logger)
        let markers =
            kafka.embedded == nil
            ? nil
            : TransactionMarkers(
                kafka: kafka, seed: options.seed, report: report, register: { inputs.register(marker: $0) })
        let workload = try Workload(
            world: world, kafka: kafka, seed: options.seed, rate: options.rate, logger: logger, markers: markers,
            register: { inputs.register($0) })
        let driver = FaultDriver(
            fleet: fleet, server: server, kafka: kafka, provider: provider, devices: devices,
            workload: workload, markers: markers, front: front, pool: faultPool, report: report)
        let stage = Stage(
            world: world, fleet: fleet, provider: provider, devices: devices, driver: driver, workload: workload,
            report: report, options: options)

        let web = ServiceGroup(services: [provider.application(logger: logger)], logger: logger)
        await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await web.run() }
            group.addTask { try await inputs.run() }
            group.addTask { try await timelines.run() }
            group.addTask { await devices.fetch() }
            do {
                try await eventually("the provider listens") { provider.port != 0 }
                front.forward(to: provider.port)
                try await install(world, provider, front, server, kafka, directory, pool)
                report.say(
                    "\(world.widgets.count) widgets, \(world.timelines.count) timelines, \(options.rate) events/s, seed "
                        + "\(options.seed)")
                try await act(stage, inputs, timelines, pool, kafka)
            } catch {
                report.violated(.liveness, "\(error)")
            }
            fleet.close()
            await workload.close()
            await inputs.close()
            await timelines.close()
            await web.triggerGracefulShutdown()
            group.cancelAll()
            while let result = await group.nextResult() { _ = result }
        }
        await pool.shutdown()
        await faultPool.shutdown()
        server.close()
        await kafka.close()
        try await devices.stop()
        try await front.stop()
    }

    // MARK: Steps

    private func install(
        _ world: ChaosWorld, _ provider: ChaosProvider, _ front: GoAwayFront, _ server: ChaosPostgres,
        _ kafka: ChaosKafka, _ directory: RunDirectory, _ pool: PostgresPool
    ) async throws {
        let manifest = directory.url.appendingPathComponent("kinds.yaml")
        var text = world.manifest(providerPort: provider.port, frontPort: front.port)
        if options.pausedTimelines > 0 { text += PausedApp.manifest(providerPort: provider.port) }
        try Data(text.utf8).write(to: manifest)
        var environment = Fleet.environment(kafka).merging(PausedApp.environment) { $1 }
        // Unlike the fleet, these commands are not tried again when the machine is slow.
        for time in ["CONNECT", "ACQUIRE", "STATEMENT"] { environment["FRESHET_POSTGRES_\(time)_TIMEOUT"] = "300s" }
        environment["FRESHET_POSTGRES_URL"] = server.directURL
        for app in world.apps {
            environment[app.secretVariable] = "whsec_" + Data(app.secret).base64EncodedString()
        }
        let freshet = try BuiltProgram.find("freshet").path
        try await Command.run(freshet, ["migrate"], environment: environment)
        try await Command.run(freshet, ["kinds", "apply", manifest.path], environment: environment)
        try await pool.withConnection { try await $0.simple(Audit.sql) }
        if options.isHealthy { try await pool.withConnection { try await $0.simple(Audit.failuresSQL) } }
        if options.pausedTimelines > 0 { try await PausedApp.fill(options.pausedTimelines, in: pool) }
        if let sql = options.mutation?.sql { try await pool.withConnection { try await $0.simple(sql) } }
    }

    private func act(
        _ stage: Stage, _ inputs: InputLog, _ timelines: TimelineLog, _ pool: PostgresPool, _ kafka: ChaosKafka
    ) async throws {
        let (report, fleet, workload) = (stage.report, stage.fleet, stage.workload)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await fleet.tend() }
            fleet.start()
            try await workload.place()
            try await eventually("all widgets are placed", every: .milliseconds(200)) {
                try await pool.query(StoredWidgets()).count == stage.world.widgets.count
            }
            report.say("all widgets are placed; events and faults begin")
            group.addTask { try await workload.run() }
            let audit = Audit(pool: pool, report: report, isHealthy: options.isHealthy)
            group.addTask { try await watch(inputs, workload, audit, pool, report) }

            if try await untilExpected(report, { try await fail(stage) }) {
                report.say("the expected invariant is violated")
                group.cancelAll()
                while let result = await group.nextResult() { _ = result }
                return
            }
            report.say("faults are over; healing")
            workload.stop()
            try await stage.driver.heal()
            try await eventually("all events are acknowledged") { workload.isDone }
            await workload.endLogs()
            if try await settle(stage, inputs, timelines, pool), try await workload.correct() {
                report.say("people with a wrong clock have published correct events")
                _ = try await settle(stage, inputs, timelines, pool)
            }
            report.say("checking")
            try await FinalCheck(
                world: stage.world, model: inputs.model, latest: timelines.latest, provider: stage.provider,
                devices: stage.devices, correctedAt: workload.correctedAt, pool: pool, audit: audit,
                pausedTimelines: options.pausedTimelines, report: report, logs: fleet.workers.map(\.log)
            ).run()
            try await PersonCheck(
                world: stage.world, model: inputs.model, kafka: kafka, pool: pool, report: report
            ).run()
            try await stop(fleet)
            group.cancelAll()
            do { try await group.waitForAll() } catch is CancellationError {}
        }
        let (made, acknowledged, refusals) = workload.counts
        let model = inputs.model
        let published = timelines.counts
        report.say(
            "events: \(made) made, \(acknowledged) acknowledged after \(refusals) refusals, \(model.applied) in the log "
                + "(\(model.repeated) repeated, \(model.markerCount) markers of transactions); provider: \(stage.provider.fetches) requests for "
                + "\(stage.provider.timelines) timelines; published: \(published.messages), of these "
                + "\(published.tombstones) tombstones and \(published.ignored) that consumers ignore")
    }

    /// Injects the faults.
    private func fail(_ stage: Stage) async throws {
        if let script { return try await script(stage) }
        let schedule = FaultSchedule(
            seed: options.seed, duration: options.duration, interval: options.faultInterval,
            members: stage.fleet.residents.map(\.name), apps: stage.world.apps.map(\.name),
            hasEmbeddedBrokers: options.bootstrapServers == nil)
        try await stage.driver.run(schedule)
    }

    /// Runs the body to its end, or until an expected invariant is violated.
    ///
    /// - Returns: Whether one was violated.
    private func untilExpected(
        _ report: ChaosReport, _ body: @escaping @Sendable () async throws -> Void
    ) async throws -> Bool {
        guard !options.expected.isEmpty else {
            try await body()
            return false
        }
        let expected = options.expected
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await body()
                return false
            }
            group.addTask {
                while !expected.contains(where: { report.violations(of: $0) > 0 }) {
                    try await Task.sleep(for: .milliseconds(200))
                }
                return true
            }
            let isViolated = try await group.next() ?? false
            group.cancelAll()
            while let result = await group.nextResult() { _ = result }
            return isViolated
        }
    }

    /// Pauses the workload while ingest is far behind, and reports the lag.
    private func watch(
        _ inputs: InputLog, _ workload: Workload, _ audit: Audit, _ pool: PostgresPool, _ report: ChaosReport
    ) async throws {
        var round = 0
        while !Task.isCancelled {
            do { try await Task.sleep(for: .seconds(1)) } catch { return }
            try? await audit.look()
            // Keeps readers on the schedules of some stacks.
            for key in PersonCheck.keys(of: inputs.model).prefix(20) { _ = try? await pool.query(.wantSchedule(key)) }
            guard let rows = try? await pool.query(StoredPositions()) else { continue }
            var stored: [TopicPartition: Int64] = [:]
            for row in rows { stored[TopicPartition(topic: row.topic, partition: row.partition)] = row.next }
            let behind = inputs.next.map { $0.value - (stored[$0.key] ?? 0) }
            // A partition with 5 MiB holds about 8,000 events.
            workload.set(paused: (behind.max() ?? 0) > 3_000)
            round += 1
            if round % 10 == 0 {
                let unsettled = try? await pool.query(Unsettled()).first
                report.say(
                    "ingest is \(behind.reduce(0, +)) events behind, \(unsettled?.stale ?? -1) timelines are stale, "
                        + "\(workload.counts.acknowledged) events so far")
            }
        }
    }

    /// Waits until all work is done.
    ///
    /// - Returns: Whether it was in time.
    private func settle(
        _ stage: Stage, _ inputs: InputLog, _ timelines: TimelineLog, _ pool: PostgresPool
    ) async throws -> Bool {
        let begin = ContinuousClock.now
        var state = "nothing is known"
        var quiet = 0
        var lastSaid = begin
        stage.report.checked(.liveness)
        while quiet < 3 {
            guard ContinuousClock.now - begin < options.patience else {
                let rows = (try? await pool.query(UnsettledRows())) ?? []
                stage.report.violated(
                    .liveness, "not quiet within \(options.patience): \(state); \(rows.joined(separator: " "))")
                return false
            }
            try await Task.sleep(for: .milliseconds(300))
            let (isQuiet, text) = await look(stage, inputs, timelines, pool)
            state = text
            quiet = isQuiet ? quiet + 1 : 0
            if ContinuousClock.now - lastSaid > .seconds(5) {
                lastSaid = .now
                stage.report.say("not quiet yet: \(text)")
            }
        }
        stage.report.say("quiet after \(ChaosReport.seconds(ContinuousClock.now - begin)) s")
        return true
    }

    private func look(
        _ stage: Stage, _ inputs: InputLog, _ timelines: TimelineLog, _ pool: PostgresPool
    ) async -> (Bool, String) {
        guard stage.workload.isDone else { return (false, "events are not acknowledged") }
        do {
            var stored: [TopicPartition: Int64] = [:]
            for row in try await pool.query(StoredPositions()) {
                stored[TopicPartition(topic: row.topic, partition: row.partition)] = row.next
            }
            let behind = inputs.next.reduce(0) { $0 + abs($1.value - (stored[$1.key] ?? 0)) }
            guard let row = try await pool.query(Unsettled()).first else { return (false, "no answer") }
            guard stage.devices.areIdle else { return (false, "devices are reading") }
            if behind == 0, row.isQuiet {
                // Requires a connection per partition, so it runs last.
                guard await inputs.isAtEnd(), await timelines.isAtEnd() else {
                    return (false, "the checker is still reading")
                }
                return (true, "all is quiet")
            }
            return (
                false,
                "ingest is \(behind) events behind; timelines: \(row.stale) stale, \(row.orphaned) orphaned; \(row.lists) lists, "
                    + "\(row.sweeps) sweeps, \(row.unforwarded) dead letters to forward, \(row.devices) devices to notify"
            )
        } catch {
            return (false, "\(error)")
        }
    }

    /// Stops the processes in order, within the grace time.
    private func stop(_ fleet: Fleet) async throws {
        for member in fleet.members { member.retire() }
        try await eventually("all processes stop in order") {
            fleet.members.allSatisfy { !$0.isRunning }
        }
        for member in fleet.members { member.tend() }
    }
}
