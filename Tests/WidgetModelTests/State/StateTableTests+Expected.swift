extension StateTableTests {
    /// A line for each event: its answer; then the minutes until the timeline is due, or its lease ends, and its lane.
    static let expected: [State: String] = [
        .new: """
        push: due, 0 interactive
        foreground: due, 0 interactive
        operatorsReload: due, 0 interactive
        sweepPush: due, 0 interactive
        sweepTimeChange: due, 0 interactive
        sweepOperators: due, 0 interactive
        place: -, 0 interactive
        orphan: -, 0 bulk
        view: -, 0 interactive
        republish: -, 0 interactive
        claim: first, leased 2 interactive
        complete: fenced, 0 interactive
        fail: fenced, 0 interactive
        release: fenced, 0 interactive
        wait: fenced, 0 interactive
        sleep: fenced, 0 interactive
        collect: fenced, 0 interactive
        collectShown: fenced, 0 interactive
        """,
        .idle: """
        push: due, 0 push
        foreground: due, 0 interactive
        operatorsReload: due, 0 interactive
        sweepPush: due, 0 bulk
        sweepTimeChange: due, 0 bulk
        sweepOperators: due, 0 bulk
        place: -, 60 scheduled
        orphan: -, 0 bulk
        view: -, 60 scheduled
        republish: -, 0 scheduled
        claim: -, 60 scheduled
        complete: fenced, 60 scheduled
        fail: fenced, 60 scheduled
        release: fenced, 60 scheduled
        wait: fenced, 60 scheduled
        sleep: fenced, 60 scheduled
        collect: fenced, 60 scheduled
        collectShown: fenced, 60 scheduled
        """,
        .due: """
        push: due, -1 push
        foreground: due, -1 interactive
        operatorsReload: due, -1 interactive
        sweepPush: due, -1 scheduled
        sweepTimeChange: due, -1 scheduled
        sweepOperators: due, -1 scheduled
        place: -, -1 scheduled
        orphan: -, 0 bulk
        view: -, -1 scheduled
        republish: -, -1 scheduled
        claim: policy, leased 2 scheduled
        complete: fenced, -1 scheduled
        fail: fenced, -1 scheduled
        release: fenced, -1 scheduled
        wait: fenced, -1 scheduled
        sleep: fenced, -1 scheduled
        collect: fenced, -1 scheduled
        collectShown: fenced, -1 scheduled
        """,
        .onRequest: """
        push: due, 0 push
        foreground: due, 0 interactive
        operatorsReload: due, 0 interactive
        sweepPush: due, 0 bulk
        sweepTimeChange: due, 0 bulk
        sweepOperators: due, 0 bulk
        place: -, ever scheduled
        orphan: -, 0 bulk
        view: -, ever scheduled
        republish: -, 0 scheduled
        claim: -, ever scheduled
        complete: fenced, ever scheduled
        fail: fenced, ever scheduled
        release: fenced, ever scheduled
        wait: fenced, ever scheduled
        sleep: fenced, ever scheduled
        collect: fenced, ever scheduled
        collectShown: fenced, ever scheduled
        """,
        .spent: """
        push: in 30, 30 push
        foreground: due, 0 interactive
        operatorsReload: due, 0 interactive
        sweepPush: in 30, 30 bulk
        sweepTimeChange: due, 0 bulk
        sweepOperators: due, 0 bulk
        place: -, 60 scheduled
        orphan: -, 0 bulk
        view: -, 60 scheduled
        republish: -, 0 scheduled
        claim: -, 60 scheduled
        complete: fenced, 60 scheduled
        fail: fenced, 60 scheduled
        release: fenced, 60 scheduled
        wait: fenced, 60 scheduled
        sleep: fenced, 60 scheduled
        collect: fenced, 60 scheduled
        collectShown: fenced, 60 scheduled
        """,
        .spaced: """
        push: in 4, 4 push
        foreground: in 4, 4 interactive
        operatorsReload: due, 0 interactive
        sweepPush: in 4, 4 bulk
        sweepTimeChange: in 4, 4 bulk
        sweepOperators: due, 0 bulk
        place: -, 60 scheduled
        orphan: -, 0 bulk
        view: -, 60 scheduled
        republish: -, 0 scheduled
        claim: -, 60 scheduled
        complete: fenced, 60 scheduled
        fail: fenced, 60 scheduled
        release: fenced, 60 scheduled
        wait: fenced, 60 scheduled
        sleep: fenced, 60 scheduled
        collect: fenced, 60 scheduled
        collectShown: fenced, 60 scheduled
        """,
        .asleep: """
        push: due, 0 push
        foreground: due, 0 interactive
        operatorsReload: due, 0 interactive
        sweepPush: due, 0 bulk
        sweepTimeChange: due, 0 bulk
        sweepOperators: due, 0 bulk
        place: due, 0 interactive
        orphan: -, 0 bulk
        view: woken, 0 scheduled
        republish: -, 0 scheduled
        claim: -, ever scheduled
        complete: fenced, ever scheduled
        fail: fenced, ever scheduled
        release: fenced, ever scheduled
        wait: fenced, ever scheduled
        sleep: fenced, ever scheduled
        collect: fenced, ever scheduled
        collectShown: fenced, ever scheduled
        """,
        .failed: """
        push: in 2, 2 push
        foreground: in 2, 2 interactive
        operatorsReload: in 2, 2 interactive
        sweepPush: in 2, 2 scheduled
        sweepTimeChange: in 2, 2 scheduled
        sweepOperators: in 2, 2 scheduled
        place: -, 2 scheduled
        orphan: -, 0 bulk
        view: -, 2 scheduled
        republish: -, 2 scheduled
        claim: -, 2 scheduled
        complete: fenced, 2 scheduled
        fail: fenced, 2 scheduled
        release: fenced, 2 scheduled
        wait: fenced, 2 scheduled
        sleep: fenced, 2 scheduled
        collect: fenced, 2 scheduled
        collectShown: fenced, 2 scheduled
        """,
        .leased: """
        push: in flight, leased 1 push
        foreground: in flight, leased 1 interactive
        operatorsReload: in flight, leased 1 interactive
        sweepPush: -, leased 1 scheduled
        sweepTimeChange: -, leased 1 scheduled
        sweepOperators: -, leased 1 scheduled
        place: -, leased 1 scheduled
        orphan: -, leased 1 scheduled
        view: -, leased 1 scheduled
        republish: -, 0 scheduled
        claim: -, leased 1 scheduled
        complete: policy, 180 scheduled
        fail: retry, 4 scheduled
        release: retry, 0 scheduled
        wait: rules, 20 scheduled
        sleep: nothing, ever scheduled
        collect: revived, 0 push
        collectShown: revived, 0 push
        """,
        .lost: """
        push: in flight, leased -1 push
        foreground: in flight, leased -1 interactive
        operatorsReload: in flight, leased -1 interactive
        sweepPush: -, leased -1 scheduled
        sweepTimeChange: -, leased -1 scheduled
        sweepOperators: -, leased -1 scheduled
        place: -, leased -1 scheduled
        orphan: -, leased -1 scheduled
        view: -, leased -1 scheduled
        republish: -, -1 scheduled
        claim: policy, leased 2 scheduled
        complete: policy, 180 scheduled
        fail: retry, 4 scheduled
        release: retry, 0 scheduled
        wait: rules, 20 scheduled
        sleep: nothing, ever scheduled
        collect: revived, 0 push
        collectShown: revived, 0 push
        """,
        .orphaned: """
        push: due, -1 push
        foreground: due, -1 interactive
        operatorsReload: due, -1 interactive
        sweepPush: due, -1 bulk
        sweepTimeChange: due, -1 bulk
        sweepOperators: due, -1 bulk
        place: due, -1 interactive
        orphan: -, -1 bulk
        view: -, -1 bulk
        republish: -, -1 bulk
        claim: collect, leased 2 bulk
        complete: fenced, -1 bulk
        fail: fenced, -1 bulk
        release: fenced, -1 bulk
        wait: fenced, -1 bulk
        sleep: fenced, -1 bulk
        collect: fenced, -1 bulk
        collectShown: fenced, -1 bulk
        """,
        .leasedOrphan: """
        push: in flight, leased 1 push
        foreground: in flight, leased 1 interactive
        operatorsReload: in flight, leased 1 interactive
        sweepPush: -, leased 1 scheduled
        sweepTimeChange: -, leased 1 scheduled
        sweepOperators: -, leased 1 scheduled
        place: in flight, leased 1 interactive
        orphan: -, leased 1 scheduled
        view: -, leased 1 scheduled
        republish: -, 0 scheduled
        claim: -, leased 1 scheduled
        complete: collection, 0 bulk
        fail: retry, 4 scheduled
        release: retry, 0 scheduled
        wait: collection, 0 bulk
        sleep: collection, 0 bulk
        collect: collected, leased 1 scheduled
        collectShown: revived, 0 push
        """,
    ]
}
