import PostgresClient
import TestSupport
import Testing

@testable import WidgetStore

@Suite("Every statement is one that PostgreSQL takes", .timeLimit(.patience))
struct StatementTests {
    /// Every statement of the store: a new one belongs here.
    static let all: [any PostgresStatement.Type] = [
        ListAppDeadLetters.self, ReadAppDeadLetter.self, ReadDeadLetter.self, DatabaseTime.self,
        InsertDeadLetter.self, DeadLettersToForward.self, DeadLettersForwarded.self, DeadLettersRefused.self,
        RequireFlow.self, CountFailures.self, ListDiversions.self, LockDiversion.self, EndDiversion.self,
        ForgetFailures.self, ListHalts.self, LockTopicState.self, HaltForApps.self, HaltTopic.self,
        WaitingLetters.self, BeginDiversion.self,
        ResumeTopics.self, DeadLettersToReplay.self, DeadLettersReplayed.self,
        DeadLettersFailedAgain.self, DeleteOldDeadLetters.self,
        NextPlaceholderKind.self, ClaimPlaceholders.self, FinishPlaceholders.self, DropPlaceholders.self,
        ExpirePlaceholders.self, ListPlaceholders.self, ReadKindPlaceholder.self, RecordPlaceholders.self,
        RenewPlaceholders.self, SaveSnapshots.self,
        FillIndexes.self, FillIsEmpty.self, FillTimelines.self, FillWidgets.self, BeginFill.self, AppointFilled.self,
        FillSizes.self,
        TakePartitions.self, AdvancePositions.self, ListPositions.self, SetPosition.self, ForgetPositions.self,
        ReadCluster.self, RecordCluster.self, ReplaceCluster.self, InsertEventTraces.self,
        EventTracesExist.self, ReadEventTraces.self, DeleteOldEventTraces.self,
        CancelKind.self, CountStrays.self, BeginMove.self, KindsToChange.self, LockKindChange.self,
        KindChangePage.self, WidgetsShowing.self, RemoveWidgets.self, AdvanceKindChange.self, EndKindChangePass.self,
        ListMoves.self, ListKinds.self, ReadKind.self, ListApps.self, UpsertApp.self, UpsertKind.self,
        LockManifests.self, PauseApp.self, PauseKind.self, RetireKind.self, CountTimelines.self,
        ReadSecrets.self, KeepSecret.self, ReplaceSecret.self, ForgetSecret.self, FindApp.self,
        CheckTokenOrigin.self, ClaimLists.self, ReadyLists.self, NotifyDue.self, EndLists.self,
        CommitAsynchronously.self, GiveBackLists.self, AppendSuspects.self, ReadWorkLists.self, CountSweeps.self,
        RegisterWorker.self, LeaveWorkers.self, OtherWorkers.self, NextToken.self,
        Overview.self, ReadExplanation.self, ReadTimeline.self, ReadWidgetTimeline.self,
        ListWidgets.self, RefusedRequests.self, PollTimeline.self, DeviceTimelines.self, TakesWrites.self,
        DatabaseVitals.self, ForecastDue.self, AddKindStatistics.self, PruneKindStatistics.self,
        ReadKindStatistics.self, OldestSnapshot.self, QueueDepths.self, ServerSettings.self, ServerSessions.self,
        OddIndexes.self, StoredTimelines.self, TimelinesUnderWay.self, TableSizes.self, TakeSnapshot.self,
        TimelineEstimate.self, TimelineAges.self, WaitingWork.self,
        BumpKinds.self, RecordSweep.self, ListSweeps.self, WalkKind.self, SweepMarks.self,
        AuditTimelines.self, LockOrphans.self, CollectTimelines.self, ComparePublished.self, MarkTimelines.self,
        InsertTimelines.self, LockPlacedTimelines.self, OrphanTimelines.self, SettleTimelines.self,
        StoreTimelines.self, ReadTimelinesAgain.self,
        DeleteWidgetsOfUser.self, DeleteContentOfUser.self, DeleteDeadLettersOfUser.self, LockWidgets.self,
        ReadWidgets.self, InsertWidgets.self, UpdateWidgets.self, DeleteUnplacedWidgets.self, InsertEventOutcomes.self,
        ReadEventOutcome.self, FindEventOutcomes.self, FindRepeatedEvents.self, IgnoredEvents.self,
        DeleteOldEventOutcomes.self, DeleteOutcomesOfUser.self, ClaimIdempotencyKey.self, DeleteOldIdempotencyKeys.self,
    ]

    @Test("utility statements, which PREPARE does not take, can be run")
    func utilities() async throws {
        try await withStore { store in
            try await store.pool.withConnection { connection in
                // A checkpoint waits for the disk with all that the tests beside have written: minutes on a slow one.
                try await connection.simple("SET statement_timeout = 0")
                _ = try await connection.execute(TidyTimelines())
                _ = try await connection.execute(CompactTimelines())
                _ = try await connection.execute(WriteCheckpoint())
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

    private func prepare<Statement: PostgresStatement>(
        _ statement: Statement.Type, on connection: PostgresConnection
    ) async throws {
        do {
            try await connection.simple("PREPARE check_text AS \(statement.sql);\nDEALLOCATE check_text")
        } catch {
            Issue.record("\(statement): \(error)")
        }
    }

    @Test("The table of timelines has three indexes and no more, none on a column that a reload changes")
    func indexes() async throws {
        try await withStore { store in
            let count = try await store.integer("SELECT count(*) FROM pg_indexes WHERE tablename = 'timeline'")
            let odd = try await store.pool.query(OddIndexes())
            #expect(count == 3 && odd.isEmpty)
        }
    }
}
