// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("PostgreSQL accepts every statement", .timeLimit(.patience))
struct StatementTests {
    private static let kind = KindDefinition(name: "a", providerURL: "http://a", placeholder: [:])
    private static let environment = WidgetEnvironment(storedLocale: "en", timeZone: "UTC")
    private static let letter = DeadLetter(
        topic: "a", partition: 1, offset: 1, app: nil, code: "a", error: "a", key: nil, headers: [], payload: nil)

    /// All statements of the store. New statements are added here.
    static let all: [any PostgresStatement] = [
        Statements.listAppDeadLetters(app: "a", limit: 1), Statements.listDeadLetters(DeadLetterFilter(), limit: 1),
        Statements.listAllDeadLetters(DeadLetterFilter(), limit: 1),
        Statements.countDeadLetters(DeadLetterFilter(), limit: 1), Statements.readDeadLetter(id: 1),
        Statements.databaseTime(), Statements.insertDeadLetter(letter),
        Statements.deadLettersToForward(limit: 1, lease: .zero), Statements.releaseDeadLetters([]),
        Statements.deadLettersForwarded([]), Statements.deadLettersRefused([], limit: 1),
        Statements.countFailures([], limits: DeadLetterLimits()), Statements.waitingLetters(),
        Statements.beginDiversion(appID: 1, letters: 1), Statements.listDiversions(countLimit: 1),
        Statements.lockDiversion(app: "a"), Statements.endDiversion(app: "a"), Statements.forgetFailures(app: "a"),
        Statements.forgetFailures(), Statements.listHalts(), Statements.lockTopicState(topic: "a"),
        Statements.haltForApps(topic: "a", limits: DeadLetterLimits(), detail: "a"),
        Statements.setFullDiversions([1]), Statements.setFullTopics([]), Statements.listFullTopics(),
        Statements.haltTopic(topic: "a", cause: .full, detail: "a"),
        Statements.resumeTopics(),
        Statements.deadLettersToReplay(
            DeadLetterFilter(), after: 1, limit: 1, maximumBytes: 1, isResumption: false),
        Statements.deadLettersReplayed([]), Statements.deadLettersFailedAgain([]),
        Statements.discardDeadLetters(DeadLetterFilter(), limit: 1),
        Statements.deleteOldDeadLetters(olderThan: .zero, limit: 1),
        Statements.nextPlaceholderKind(excluding: [], served: []),
        Statements.editDeadLetter(id: 1, headers: [(name: "a", value: nil)], payload: [1]),
        Statements.claimPlaceholders(kindID: 1, limit: 1, lease: .zero), Statements.finishPlaceholders([]),
        Statements.dropPlaceholders([]), Statements.expirePlaceholders(limit: 1),
        Statements.listPlaceholders(app: "a", limit: 1),
        Statements.readKindPlaceholder(app: "a", kind: "a", family: .systemSmall, environment: environment),
        Statements.recordPlaceholders([]), Statements.saveSnapshots([]),
        Statements.fillWidgets([]), Statements.appointFilled(),
        Statements.takePartitions([], cluster: nil), Statements.advancePositions([]), Statements.listPositions(),
        Statements.setPosition(topic: "a", partition: 1, nextOffset: nil), Statements.forgetPositions(),
        Statements.insertEventOutcomes([]),
        Statements.readEventOutcome(EventName(app: "a", id: "a")),
        Statements.findEventOutcomes([]), Statements.findRepeatedEvents([]),
        Statements.claimIdempotencyKey(
            app: "a", key: ContentHash(of: []), request: ContentHash(of: [])),
        Statements.deleteOldIdempotencyKeys(olderThan: .zero, limit: 1), Statements.keysInExcess(of: 1),
        Statements.beginRetention(of: "a", every: .zero), Statements.continueRetention(of: "a"),
        Statements.unplacedInExcess(of: 1), Statements.outcomesInExcess(of: 1),
        Statements.ignoredEvents(app: "a", widget: "a"),
        Statements.deleteOldEventOutcomes(olderThan: .zero, limit: 1), Statements.insertEventTraces([]),
        Statements.eventTracesExist(), Statements.readEventTraces([]),
        Statements.deleteOldEventTraces(olderThan: .zero, limit: 1), Statements.readCluster(),
        Statements.registerIngest(0, timeout: .zero),
        Statements.leaveIngest(0), Statements.recordCluster("a"),
        Statements.replaceCluster("a"), Statements.recordSweep([]),
        Statements.kindsToChange(maximumLists: 1), Statements.lockKindChange(kindID: 1),
        Statements.kindChangePage(kindID: 1, definition: kind, retires: true, after: 1, limit: 1),
        Statements.configurationsShown(kindID: 1, after: 1, through: 1), Statements.widgetsShowing([], limit: 1),
        Statements.removeWidgets([], from: []),
        Statements.advanceKindChange(kindID: 1, cursor: 1, changed: 1),
        Statements.endKindChangePass(kindID: 1, grace: .zero), Statements.listMoves(),
        Statements.countMisfits(kindID: 1), Statements.countStrays(kindID: 1, definition: kind, limit: 1),
        Statements.beginMove(appID: 1, kind: "a", configurations: true),
        Statements.cancelKind(app: "a", kind: "a", .test), Statements.listKinds(), Statements.anyIsRegistered([]),
        Statements.listApps(),
        Statements.upsertApp(name: "a", isDeveloperMode: true, signingSecret: nil, freshSecret: []),
        Statements.upsertKind(appID: 1, definition: kind), Statements.renewPlaceholders(appID: 1),
        Statements.lockManifests(), Statements.pauseApp(app: "a", isPaused: true, .test),
        Statements.pauseKind(app: "a", kind: "a", isPaused: true, .test),
        Statements.recordAction(.reload, app: "a", kind: "a", .test),
        Statements.listActions(app: "a", kind: "a", limit: 1),
        Statements.operatedWork(app: "a", kind: nil), Statements.countTimelines(app: "a", kind: nil, limit: 1),
        Statements.retireKind(app: "a", kind: "a"),
        Statements.countTimelines(kindID: 1, limit: 1), Statements.readSecrets(app: nil),
        Statements.keepSecret(app: "a", newSecret: [], keepingOld: .zero),
        Statements.replaceSecret(app: "a", secret: []), Statements.forgetSecret(app: "a"),
        Statements.checkTokenOrigin(), Statements.claimLists([], lease: .zero),
        Statements.readyLists([], limit: 1), Statements.notifyDue(),
        Statements.endLists([], worker: 0),
        Statements.giveBackLists([]), Statements.appendSuspects([]), Statements.readWorkLists(app: nil),
        Statements.countSweeps(app: nil), Statements.workIsDue(app: nil), Statements.registerWorker(0),
        Statements.recordBreakers([], worker: 0), Statements.listOutages(app: "a"),
        Statements.readBudgets(kindID: 1),
        Statements.leaveWorkers(0), Statements.otherWorkers(than: nil),
        Statements.reportProcess(0, role: "a", obstacles: []), Statements.forgetProcess(0), Statements.listProcesses(),
        Statements.nextToken(), Statements.overview(),
        Statements.readExplanation(app: "a", widget: "a"),
        Statements.readTimeline(id: TimelineID(high: 0, low: 0), app: "a"),
        Statements.pollTimeline(app: "a", widgets: [], user: nil, known: [], knowsAny: true),
        Statements.readWidgetTimeline(app: "a", widget: "a"),
        Statements.listWidgets(WidgetFilter(app: "a"), limit: 1), Statements.countWidgetStates(WidgetFilter(app: "a")),
        Statements.oldestDue(app: "a"), Statements.refusedRequests(app: "a", keys: []),
        Statements.deviceTimelines(app: "a", device: "a", user: nil, limit: 1), Statements.takesWrites(),
        Statements.databaseVitals(),
        Statements.forecastDue(app: nil, hours: 1), Statements.addKindStatistics([]),
        Statements.pruneKindStatistics(olderThan: 1), Statements.readKindStatistics(app: "a", days: 1),
        Statements.oldestSnapshot(), Statements.queueDepths(limit: 1, overdueAfter: .zero),
        Statements.serverSettings(), Statements.serverSessions(), Statements.oddIndexes(),
        Statements.storedTimelines(after: nil, limit: 1), Statements.timelinesUnderWay(), Statements.tableSizes(),
        Statements.takeSnapshot(), Statements.timelineEstimate(),
        Statements.timelineAges(rows: 1, of: 1), Statements.waitingWork(limit: 1), Statements.bumpKinds([]),
        Statements.listSweeps(limit: 1, maximumLists: 1),
        Statements.waitingSweeps(app: nil, silence: .zero, maximumLists: 1, limit: 1), Statements.tokenHistory(),
        Statements.oldestEventOutcome(), Statements.oldestIdempotencyKey(), Statements.oldestUnplacedWidget(),
        Statements.oldestRemovedWidget(), Statements.oldestEventTrace(), Statements.oldestDoneDeadLetter(),
        Statements.unknownFamilies(besides: [], app: nil), Statements.walkKind(1, limit: 1, maximumLists: 1),
        Statements.sweepMarks(1, limit: 1, maximumLists: 1),
        Statements.postponeSweep(1), Statements.postponeKindChange(kindID: 1),
        Statements.auditTimelines(after: 1, limit: 1, slack: .zero),
        Statements.auditLists(after: 1, limit: 1, latest: .distantPast), Statements.appointLost([]),
        Statements.takeAudit(worker: 1, lease: .seconds(1)),
        Statements.advanceAudit(worker: 1, cursor: 1, lease: .seconds(1)),
        Statements.endAuditPass(worker: 1, isWhole: true, interval: .seconds(1)),
        Statements.auditProgress(), Statements.lockOrphans([]),
        Statements.collectTimelines([]), Statements.buryOrphans([]), Statements.comparePublished([]),
        Statements.markTimelines(MarkInput(), limit: 1), Statements.markUsers([], limit: 1),
        Statements.insertTimelines([]), Statements.replaceContent([]),
        Statements.lockPlacedTimelines([]), Statements.orphanTimelines([]), Statements.rescheduleTimelines([]),
        Statements.storeTimelines([]), Statements.readTimelinesAgain([]),
        Statements.deleteWidgetsOfUser(appID: 1, user: "a"), Statements.deleteContentOfUser([], user: "a"),
        Statements.deleteDeadLettersOfUser(app: "a", user: "a", after: 1),
        Statements.deleteOutcomesOfUser(appID: 1, user: "a"), Statements.lockWidgets(WidgetScope(widgets: [])),
        Statements.readWidgets(WidgetScope(widgets: [])), Statements.insertWidgets([]), Statements.updateWidgets([]),
        Statements.deleteUnplacedWidgets(olderThan: .zero, limit: 1),
        Statements.deleteRemovedWidgets(olderThan: .zero, limit: 1),
        Statements.createPeople([]), Statements.readPeople([]), Statements.writePeople([]),
        Statements.deletePerson(appID: 1, user: "a"), Statements.emptySchedules(appID: 1, user: "a"),
        Statements.clearHabits(app: "a", user: "a"),
        Statements.peopleSize(), Statements.readArrangement(app: "a", user: "a"),
        Statements.readSchedules(app: "a", user: "a", stack: "a", device: nil),
        Statements.wantSchedule(StackPlan.Key(app: "a", user: "a", device: "a", stack: "a")),
        Statements.deviceSchedules(app: "a", device: "a", users: []), Statements.replanStacks(of: []),
        Statements.claimSchedules(limit: 1, lease: .zero, unread: .zero), Statements.readPeople(of: []),
        Statements.readPlannedWidgets(of: []), Statements.writeRelevance([]), Statements.writeSchedules([]),
        Statements.recordPublished([]), Statements.releaseSchedules([]), Statements.deleteSchedules([]),
        Statements.takeRelevanceChanges(limit: 1), Statements.finishRelevanceChanges([], schedules: 1),
        Statements.readSchedules(of: []), Statements.readWidgetRelevance(app: "a", widget: "a"),
        Statements.recordSuggestions([]), Statements.ownersOfWidgets([]),
        Statements.writeRegistrations([]), Statements.registeredDevices(of: []), Statements.lockTokens(of: []),
        Statements.releaseTokens(of: []),
        Statements.deleteRegistrations(appID: 1, user: "a"), Statements.markDevices(limit: 1, window: .zero),
        Statements.markSharedDevices(limit: 1, window: .zero, backlog: 1, except: []),
        Statements.tokensToReseal(except: "a", after: 1), Statements.resealTokens([]),
        Statements.claimDelivery(lease: .zero, except: []), Statements.readDeliveredWidgets(of: []),
        Statements.waitingDevices(since: .distantPast), Statements.registeredRoutes(), Statements.tokenKeysInUse(),
        Statements.knowsMostTokens(like: 1),
        Statements.noteChanges(of: []), Statements.notifyDevices(of: []),
        Statements.timelinesOfWidgets(app: "a", widgets: []),
        Statements.lockFetchers(of: []),
        Statements.recordFetches([], of: [], objectives: FreshnessObjectives(general: .zero)),
        Statements.deliveryTotals(of: [], hours: 1, objectives: FreshnessObjectives(general: .zero)),
        Statements.deviceTotals(silentFor: .zero), Statements.deviceTotals(of: "a", silentFor: .zero),
        Statements.deleteOldDelivery(limit: 1),
        Statements.listRegistrations(app: "a", user: "a"), Statements.deliveryLag(),
        Statements.recordDeliveries([], window: .zero), Statements.endDelivery(ListHold(id: 1, lease: 1)),
        Statements.postponeDelivery(ListHold(id: 1, lease: 1), until: .distantPast),
        Statements.recordWebhookFailure(appID: 1, error: "a", patience: .zero),
        Statements.recordWebhookSuccess(appID: 1), Statements.enableWebhook(app: "a"), Statements.failingWebhooks(),
        Statements.relistDevices(app: "a", after: 1, notifiedSince: nil, delay: .zero),
    ]

    /// Functions in extensions for ``Statements`` that return a query.
    private static func declaredStatements() throws -> [String] {
        let sources = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/WidgetStore")
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        var names: [String] = []
        for case let file as URL in files?.allObjects ?? [] where file.pathExtension == "swift" {
            let source = try String(contentsOf: file, encoding: .utf8)
            for part in source.split(separator: "\nextension PostgresStatement where Self == Statements {").dropFirst()
            {
                let body = part.prefix(upTo: part.range(of: "\n}")?.lowerBound ?? part.endIndex)
                for function in body.split(separator: "static func ").dropFirst() {
                    guard function.prefix(while: { $0 != "{" }).contains("-> PostgresQuery<") else { continue }
                    names.append(String(function.prefix { $0 != "(" }))
                }
            }
        }
        return names
    }

    @Test("Every statement of the store is in this file")
    func completeness() throws {
        let file = try String(contentsOfFile: #filePath, encoding: .utf8)
        let names = try Self.declaredStatements()
        #expect(names.count > 200)
        #expect(names.filter { !file.contains(".\($0)(") } == [])
    }

    @Test("Utility statements, which PREPARE does not accept, can be run")
    func utilities() async throws {
        try await withStore { store in
            try await store.pool.withConnection { connection in
                // A checkpoint waits until the disk has all writes of concurrent tests, which may take minutes.
                try await connection.simple("SET statement_timeout = 0")
                _ = try await connection.execute(.tidyTimelines())
                _ = try await connection.execute(.compactTimelines())
                _ = try await connection.execute(.writeCheckpoint())
            }
        }
    }

    @Test("PREPARE succeeds for every statement")
    func prepare() async throws {
        try await withStore { store in
            try await store.pool.withConnection { connection in
                for statement in Self.all {
                    try await prepare(statement, on: connection)
                }
            }
        }
    }

    private func prepare(_ statement: some PostgresStatement, on connection: PostgresConnection) async throws {
        do {
            try await connection.simple("PREPARE check_text AS \(statement.sql);\nDEALLOCATE check_text")
        } catch {
            Issue.record("\(statement.name): \(error)")
        }
    }

    @Test("The timeline table has exactly three indexes, none on a column that a reload changes")
    func indexes() async throws {
        try await withStore { store in
            let count = try await store.integer("SELECT count(*) FROM pg_indexes WHERE tablename = 'timeline'")
            let odd = try await store.pool.query(.oddIndexes())
            #expect(count == 3 && odd.isEmpty)
        }
    }
}
