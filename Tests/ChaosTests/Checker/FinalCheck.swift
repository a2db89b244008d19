// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetStore

/// Compares the stored state with the log, the providers and the timelines topic when all work is done.
struct FinalCheck {
    let world: ChaosWorld
    let model: ChaosModel
    let latest: [TimelineID: TimelineLog.Latest]
    let provider: ChaosProvider
    let devices: ChaosDevices
    /// Time of the correct events after those of wrong clocks; nil without any.
    let correctedAt: Timestamp?
    let pool: PostgresPool
    let audit: Audit
    /// Number of due timelines of ``PausedApp``.
    let pausedTimelines: Int
    let report: ChaosReport
    /// Logs of the workers.
    let logs: [URL]

    /// Message of `AuditWalker` about timelines that it has appointed.
    private static let auditMessage = "timelines had something to do and no appointment"

    func run() async throws {
        checkEvidence()
        try await checkPositions()
        try await checkGenerations()
        try await checkWidgets()
        try await checkDeadLetters()
        try await checkAudit()
        try await checkTimelines()
        try await checkAppointments()
        try await checkDevices()
        try await checkRegistrations()
    }

    // MARK: Invariant 2

    private func checkEvidence() {
        for place in model.missed {
            report.violated(.exactlyOnce, "the evidence is broken: \(place) is neither a message nor a marker")
        }
    }

    private func checkPositions() async throws {
        var stored: [TopicPartition: Int64] = [:]
        for row in try await pool.query(StoredPositions()) {
            stored[TopicPartition(topic: row.topic, partition: row.partition)] = row.next
        }
        for (partition, next) in model.next {
            expect(stored[partition] == next, .exactlyOnce) {
                "\(partition): the position is \(stored[partition].map(String.init) ?? "none"), the log ends at \(next)"
            }
        }
    }

    private func checkGenerations() async throws {
        for row in try await pool.query(StoredGenerations()) {
            let expected = Int64(
                (model.appGenerations[row.app] ?? 0) + (model.kindGenerations[ChaosWorld.key(row.app, row.kind)] ?? 0))
            expect(row.generation == expected, .exactlyOnce) {
                "kind \(row.app)/\(row.kind): generation \(row.generation), the log has \(expected) reloads of everyone"
            }
        }
    }

    private func checkWidgets() async throws {
        var left = model.widgets
        for row in try await pool.query(StoredWidgets()) {
            let key = ChaosWorld.key(row.app, row.id)
            guard let widget = left.removeValue(forKey: key) else {
                report.violated(.exactlyOnce, "widget \(key) is stored, nothing has placed it")
                continue
            }
            let placement = widget.placement
            let timeline = widget.isRemoved ? nil : identity(of: placement)?.id
            let isSame =
                row.kind == placement.kind && row.family == placement.family.rawValue && row.timeline == timeline
                && row.user == placement.user && row.device == placement.device
                && row.locale == placement.environment.locale && row.timeZone == placement.environment.timeZone
                && row.changedAt.milliseconds == widget.changedAt.microseconds / 1_000
            expect(isSame, .exactlyOnce) { "widget \(key): stored \(row), the log says \(widget)" }
        }
        for key in left.keys { report.violated(.exactlyOnce, "widget \(key) was placed and is not stored") }
    }

    private func checkDeadLetters() async throws {
        var left = model.refused
        for row in try await pool.query(StoredDeadLetters()) {
            expect(left.remove(row.place) != nil, .exactlyOnce) {
                "\(row.place) is a dead letter twice, or should be none: \(row.text)"
            }
        }
        for place in left { report.violated(.exactlyOnce, "\(place) should be a dead letter") }
    }

    // MARK: Invariant 3

    private func checkAudit() async throws {
        report.checked(.neverBack, Int(try await pool.query(UpdateCount()).first ?? 0))
        try await audit.look()
    }

    // MARK: Invariants 1, 2, 4, 5

    private func checkTimelines() async throws {
        let rows = try await pool.query(StoredTimelines())
        let stored = Dictionary(rows.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        var live: [TimelineID: TimelineIdentity] = [:]
        for widget in model.widgets.values where !widget.isRemoved {
            if let identity = identity(of: widget.placement) { live[identity.id] = identity }
        }
        let stable = Dictionary(
            world.timelines.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
        for (id, identity) in live {
            guard let row = stored[id] else {
                report.checked(.noLostReload)
                report.violated(.noLostReload, "\(text(id, identity)) is shown by a widget and is not there")
                continue
            }
            check(row, identity, stable[id])
        }
        for row in rows where live[row.id] == nil {
            report.violated(.liveness, "timeline \(row.id) is shown by no widget and is still there: \(row.text)")
        }
        for (id, last) in latest where stored[id] == nil {
            expect(last.shown == nil, .publishedIsStored) {
                "timeline \(id) is gone, and the last that was published is revision \(last.revision) at \(last.place), "
                    + "no tombstone"
            }
        }
    }

    private func check(_ row: StoredTimelines.Row, _ identity: TimelineIdentity, _ index: Int?) {
        let name = text(row.id, identity)
        if let index {
            let expected = Int64(1 + model.requested[index])
            expect(row.requested == expected, .exactlyOnce) {
                "\(name): requested \(row.requested), the log has \(expected); last "
                    + "\(model.lastHits[index] ?? []); \(row.text)"
            }
            // Views of a timeline shared by several people come from several partitions, in any order.
            if identity.user != nil {
                let views = Int64(model.views[index]?.count ?? 0)
                expect(row.views == views, .exactlyOnce) {
                    "\(name): \(row.views) counted views, the log has \(views); \(row.text)"
                }
            }
        }
        guard let content = row.content else {
            report.checked(.noLostReload)
            report.violated(.noLostReload, "\(name) has never been rendered: \(row.text)")
            return
        }
        let shown: Shown
        report.checked(.wholeTimelines)
        do throws(Shown.Broken) {
            shown = try Shown(content: Array(content.utf8), of: row.id)
        } catch {
            report.violated(.wholeTimelines, "\(name) \(error): \(content.prefix(300))")
            return
        }
        expect(provider.hasGiven(shown, for: row.id), .wholeTimelines) {
            "\(name): the provider has never given \(shown)"
        }
        let current = world.kind(identity.kind, of: identity.app)?.shown(world.version(of: identity, id: row.id))
        expect(shown.version == current, .noLostReload) {
            "\(name): stored is \(shown.version), its source is at \(current.map(String.init) ?? "?") since "
                + "\(index.flatMap { model.lastHits[$0] } ?? []); \(row.text)"
        }
        let last = latest[row.id]
        expect(last?.shown == shown && last?.revision == row.contentRevision, .publishedIsStored) {
            "\(name): stored is \(shown) of revision \(row.contentRevision), last published is "
                + "\(last.map { "\($0.shown.map { "\($0)" } ?? "a tombstone") of revision \($0.revision) at \($0.place)" } ?? "nothing")"
        }
    }

    // MARK: Invariant 7

    /// Checks that no ready list is left, every row has its appointment, and no process's audit has found one without.
    private func checkAppointments() async throws {
        let rows = try await pool.query(Unappointed())
        report.checked(.appointed, Int(try await pool.query(AppointmentCount()).first ?? 0))
        for text in rows { report.violated(.appointed, "something to do and no list: \(text)") }
        for text in try await pool.query(ReadyListsLeft()) {
            report.violated(.appointed, "a ready list is left: \(text)")
        }
        if pausedTimelines > 0 {
            let appointed = try await pool.query(PausedAppointments()).first ?? 0
            expect(appointed == Int64(pausedTimelines), .appointed) {
                "\(appointed) of \(pausedTimelines) timelines of the paused app are appointed"
            }
        }
        for line in appointedByAudit() { report.violated(.appointed, "the audit has appointed: \(line)") }
    }

    /// Returns lines of the workers' logs about timelines that the audit has appointed.
    private func appointedByAudit() -> [Substring] {
        logs.flatMap { log in
            ((try? String(contentsOf: log, encoding: .utf8)) ?? "").split(separator: "\n")
                .filter { $0.contains(Self.auditMessage) }
        }
    }

    // MARK: Devices

    /// A failover loses that pushes were sent, so that they are sent again. A process frozen between its look at the
    /// lease and the write to the connection may repeat another one's pushes, once for each device. A busy machine may
    /// stop a process for as long as that once: a push whose answer is read after the time limit is sent again. After a
    /// SIGKILL the repetition comes with the end of the lease, which is longer than a push and the window.
    private func checkDevices() async throws {
        let (pushes, tooSoon) = devices.pushes
        report.say("\(pushes) pushes were accepted, \(tooSoon) within the window of another one")
        report.checked(.noStorm, pushes)
        let repeats = 1 + report.faults(of: "SIGSTOP, SIGCONT") + report.faults(of: "failover")
        if tooSoon > ChaosDevices.count * repeats {
            report.violated(.noStorm, "\(tooSoon) of \(pushes) pushes came within the window of another one")
        }
        report.checked(.delivered, ChaosDevices.count)
        expect(pushes >= ChaosDevices.count, .delivered) { "\(pushes) pushes for \(ChaosDevices.count) devices" }
        for text in try await devices.findings(in: pool) { report.violated(.delivered, text) }
    }

    /// The last registration of a device counts, even if an earlier one was dated in the future.
    private func checkRegistrations() async throws {
        guard let correctedAt else { return }
        let rows = try await pool.query(RegistrationTimes(users: world.misdated))
        expect(rows.count == world.misdated.count, .exactlyOnce) {
            "\(rows.count) of \(world.misdated.count) devices with a wrong clock are registered"
        }
        for row in rows {
            expect(row.registeredAt.milliseconds == correctedAt.milliseconds, .exactlyOnce) {
                "the device of \(row.user) is registered as of \(row.registeredAt), last registered at \(correctedAt)"
            }
        }
    }

    // MARK: -

    private func expect(_ holds: Bool, _ invariant: Invariant, _ detail: () -> String) {
        report.checked(invariant)
        if !holds { report.violated(invariant, detail()) }
    }

    private func identity(of placement: WidgetPlacement) -> TimelineIdentity? {
        world.kind(placement.kind, of: placement.app)?.definition.identity(of: placement)
    }

    private func text(_ id: TimelineID, _ identity: TimelineIdentity) -> String {
        "timeline \(id) (\(identity.app)/\(identity.kind) \(identity.user ?? "shared") "
            + "\(identity.configuration.canonical))"
    }
}
