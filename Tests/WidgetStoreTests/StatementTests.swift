import PostgresClient
import TestSupport
import Testing
import WidgetStore

@Suite("Every statement is one that PostgreSQL takes", .timeLimit(.minutes(5)))
struct StatementTests {
    /// Every statement of the store: a new one belongs here.
    static let all: [any PostgresStatement.Type] = [
        TakePartitions.self, AdvancePositions.self, ListPositions.self, SetPosition.self,
        BumpApps.self, BumpKinds.self, MarkUsers.self, MarkDevices.self, MarkWidgets.self, MarkTimelines.self,
        MarkAndClaimUsers.self, MarkAndClaimDevices.self, MarkAndClaimWidgets.self,
        MarkAndClaimTimelines.self,
        LockWidgets.self, ReadWidgets.self, LockTimelines.self, PlaceTimelines.self, OrphanTimelines.self,
        InsertWidgets.self, UpdateWidgets.self, RecordViews.self,
        InsertDeadLetter.self, DeadLettersToForward.self, DeadLettersForwarded.self, InsertSweep.self,
        DueWork.self, DueSince.self, ClaimTimelines.self, ClaimTimelinesSince.self, PlanInOrder.self, SaveContent.self,
        SaveContentInPlace.self,
        CompleteTimelines.self, CompleteTimelinesInPlace.self,
        FailTimelines.self, DeferTimelines.self, ReleaseTimelines.self, RepublishTimelines.self, CollectTimelines.self,
        KindsToSweep.self, SweepKind.self, StartSweeps.self, NextSweep.self, SweepEveryoneChunk.self,
        SweepAudienceChunk.self, MoveSweep.self, FinishSweep.self,
        ListKinds.self, ListApps.self, UpsertApp.self, UpsertKind.self, LockManifests.self,
        ListWidgets.self, ReadTimeline.self, Overview.self, RenderTimes.self, TakesWrites.self,
        DeleteWidgetsOfUser.self, DeleteContentOfUser.self, DeleteDeadLettersOfUser.self,
        NotifyDue.self,
        SaveSnapshots.self, ReadStandIn.self, RecordPlaceholders.self, RenewPlaceholders.self,
        NextPlaceholderKind.self, ClaimPlaceholders.self, FinishPlaceholders.self, DropPlaceholders.self,
        ExpirePlaceholders.self, ListPlaceholders.self,
        ReadExplanation.self, RefusedRequests.self,
        ReadKind.self, PauseApp.self, PauseKind.self, KindStates.self,
        CancelKind.self, CancelSweeps.self, CancelTimelines.self, SplitSweep.self,
        RetireKind.self, CountTimelines.self, KindsToChange.self, LockRetiredKind.self, TimelinesToRetire.self,
        WidgetsShowing.self, RemoveWidgets.self, MarkRetired.self,
        CountStrays.self, BeginMove.self, LockMove.self, MovePage.self, AdvanceMove.self, EndMovePass.self,
        ListMoves.self,
        AddKindStatistics.self, PruneKindStatistics.self, MarkedTimelines.self, LockMarked.self,
        ReadKindStatistics.self,
        ForecastDue.self,
        DeadLettersRefused.self, RequireFlow.self, CountFailures.self, ListDiversions.self, LockDiversion.self,
        EndDiversion.self, ForgetFailures.self, ReadIngestHalt.self, LockIngestState.self, HaltForApps.self,
        HaltIngest.self, ResumeIngest.self, CountUnregistered.self, ListDeadLetters.self, ListAllDeadLetters.self,
        CountDeadLetters.self, ReadDeadLetter.self, DeadLettersToReplay.self, DeadLettersReplayed.self,
        DeadLettersFailedAgain.self, DiscardDeadLetters.self, DeleteOldDeadLetters.self, DatabaseTime.self,
        FillIndexes.self, FillIsEmpty.self, FillGenerations.self, FillSizes.self, WalPosition.self, HoldSnapshot.self,
        DatabaseVitals.self, TableSizes.self, TakeSnapshot.self, StoredTimelines.self, TimelinesUnderWay.self,
        CheckTimeline.self, DeviceTimelines.self, ReadKindPlaceholder.self, ListAppDeadLetters.self,
        ReadAppDeadLetter.self, FindApp.self,
        QueueDepths.self, TimelineEstimate.self, TimelineAges.self, WaitingWork.self, OldestSnapshot.self,
        InsertEventTraces.self, EventTracesExist.self, ReadEventTraces.self, DeleteOldEventTraces.self,
        ServerSettings.self, ServerSessions.self, OddIndexes.self,
        ReadSecrets.self, KeepSecret.self, ReplaceSecret.self, ForgetSecret.self,
    ]

    @Test("utility statements, which PREPARE does not take, can be run")
    func utilities() async throws {
        try await withStore { store in
            try await store.pool.withConnection { connection in
                // A checkpoint waits for the disk with all that the tests beside have written: minutes on a slow one.
                try await connection.simple("SET statement_timeout = 0")
                _ = try await connection.execute(TidyTimelines())
                _ = try await connection.execute(CompactTimelineState())
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
            try await connection.prepare(statement)
        } catch {
            Issue.record("\(statement): \(error)")
        }
    }

    @Test("The hot table has three indexes and no more")
    func indexes() async throws {
        try await withStore { store in
            let count = try await store.integer(
                "SELECT count(*) FROM pg_indexes WHERE tablename = 'timeline_state'")
            #expect(count == 3)
        }
    }
}
