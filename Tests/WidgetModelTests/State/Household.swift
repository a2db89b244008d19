import Simulation

@testable import WidgetModel

/// Some people with two hundred widgets, a provider, workers and a sweeper, on a clock of their own: a discrete
/// simulation of the state machine under the rules, the same for each seed.
struct Household {
    // MARK: Who and what

    enum Kind: String, CaseIterable {
        /// Shared by city, wanted again every half an hour.
        case weather
        /// Entries for the day, changed in the app and by invitations.
        case calendar
        /// Asks for a reload every five minutes, whatever its budget.
        case stocks
        /// Waits for pushes.
        case reminders
        /// One entry with `atEnd`, and a small budget of its own.
        case photos
        /// Pushes in bursts, a minute apart.
        case scores

        var rules: ReloadRules {
            switch self {
            case .weather: .test(spacing: .minutes(15), isShared: true)
            case .calendar: .test()
            case .stocks: .test()
            case .reminders: .test(spacing: .minutes(2))
            case .photos: .test(spacing: .hours(1), budget: DailyBudget(minimum: 4, maximum: 10))
            case .scores: .test(spacing: .minutes(1), budget: DailyBudget(minimum: 20, maximum: 50))
            }
        }

        /// What the provider answers at a time.
        func policy(at now: Timestamp) -> (policy: ReloadPolicy, lastEntry: Timestamp) {
            switch self {
            case .weather: (.after(now + .minutes(30)), now + .hours(12))
            case .calendar: (.atEnd, now + .hours(3))
            case .stocks: (.after(now + .minutes(5)), now)
            case .reminders, .scores: (.never, now)
            case .photos: (.atEnd, now)
            }
        }
    }

    struct Person {
        /// Hours of the day, in UTC.
        var wakes: Int
        var sleeps: Int
        /// Looks at the home screen in a waking hour.
        var looksAnHour: Double
        var widgets: [Int] = []
    }

    struct Widget {
        let timeline: Int
        let person: Int
        let placedAt: Timestamp
        var rate = 0.0
        var lastViewed: Timestamp?
    }

    /// A reload that was completed.
    struct Reload {
        /// When its fetch began.
        let at: Timestamp
        let rule: ReloadRule
        /// Daily budget at that time.
        let budget: Int
        /// Since the one before.
        let gap: Duration?
    }

    struct Subject {
        let kind: Kind
        let id: TimelineID
        let rules: ReloadRules
        var state: TimelineStateMachine
        var widgets: [Int] = []
        /// The time for which a worker's look at it is on the queue.
        var queuedFor: Timestamp?
        /// When what is not rendered yet was first asked for, by what takes budget and by what does not.
        var budgetedSince: Timestamp?
        var freeSince: Timestamp?
        /// What was asked for first after the fetch under way had begun.
        var budgetedDuringFetch: Timestamp?
        var freeDuringFetch: Timestamp?
        var reloads: [Reload] = []
        /// Claims that ended in the rules deferring it.
        var deferrals: [Timestamp] = []
    }

    enum Event {
        case look(person: Int)
        case push(timeline: Int)
        case foreground(timeline: Int)
        case background(timeline: Int)
        case burst
        /// Somebody looks at what nobody has looked at for long.
        case lookAtDormant
        case bump(urgency: RequestUrgency)
        case sweep(from: Int)
        case work(timeline: Int)
        case fetched(timeline: Int, claim: TimelineClaim, plan: ReloadRule, ledger: BudgetLedger)
    }

    // MARK: State

    let start = time("2020-06-22T00:00:00Z")
    private(set) var now: Timestamp
    private(set) var people: [Person] = []
    private(set) var widgets: [Widget] = []
    private(set) var subjects: [Subject] = []
    private(set) var scope = ScopeGenerations()
    private var queue = EventQueue<Event>()
    private var random: SeededGenerator
    private var claims: Int64 = 0
    /// Which timeline nobody has looked at.
    private(set) var dormant = 0

    private(set) var summary = Summary()
    private(set) var problems: [String] = []

    struct Summary: Hashable {
        var views = 0
        var countedViews = 0
        var requests = 0
        var claims = 0
        var deferrals = 0
        var failures = 0
        var lostLeases = 0
        var fenced = 0
        var reloads: [ReloadRule: Int] = [:]
        var longestBudgetedWait: Duration = .zero
        var longestFreeWait: Duration = .zero
        var longestSharedFreeWait: Duration = .zero
        var burst: Burst?
    }

    /// A thousand pushes to a timeline without a token.
    struct Burst: Hashable {
        let timeline: Int
        let at: Timestamp
        /// When it has a token again.
        let eligibleAt: Timestamp
    }

    init(seed: UInt64, widgets count: Int = 200) {
        random = SeededGenerator(seed: seed)
        now = start
        people = [
            Person(wakes: 6, sleeps: 22, looksAnHour: 6), Person(wakes: 7, sleeps: 23, looksAnHour: 3),
            Person(wakes: 8, sleeps: 24, looksAnHour: 1), Person(wakes: 10, sleeps: 24, looksAnHour: 10),
            Person(wakes: 7, sleeps: 21, looksAnHour: 0.3),
        ]
        let kinds = Kind.allCases
        for index in 0..<count { place(kinds[index % kinds.count], index: index) }
        placeDormant()
    }

    private mutating func place(_ kind: Kind, index: Int) {
        let person = index / Kind.allCases.count % people.count
        // Eight cities for everybody; what is somebody's own is configured each time in another way.
        let configuration = kind == .weather ? "city \(index / 6 % 8)" : "\(index)"
        let identity = TimelineIdentity(
            app: "a", kind: kind.rawValue, family: nil,
            configuration: WidgetConfiguration(storedCanonical: #"{"of":"\#(configuration)"}"#), locale: nil,
            timeZone: nil, user: kind == .weather ? nil : "\(person)")
        let id = identity.id
        // Half of them were placed long ago.
        let placedAt = index % 2 == 0 ? start : start - .days(30)
        let timeline =
            subjects.firstIndex { $0.id == id }
            ?? {
                subjects.append(
                    Subject(
                        kind: kind, id: id, rules: kind.rules,
                        state: TimelineStateMachine(placedAt: now, lane: .interactive, in: scope)))
                return subjects.count - 1
            }()
        subjects[timeline].widgets.append(widgets.count)
        people[person].widgets.append(widgets.count)
        widgets.append(Widget(timeline: timeline, person: person, placedAt: placedAt))
    }

    /// A widget on a page that nobody opens: last looked at twenty days ago.
    private mutating func placeDormant() {
        dormant = subjects.count
        var subject = Subject(
            kind: .stocks, id: TimelineID(high: 5, low: 5), rules: Kind.stocks.rules,
            state: .rendered(at: start - .days(20), policy: .after(start + .hours(1))))
        subject.widgets = [widgets.count]
        widgets.append(
            Widget(timeline: dormant, person: 0, placedAt: start - .days(90), lastViewed: start - .days(20)))
        subjects.append(subject)
    }

    // MARK: Running

    /// Lets so many days go by, then as long as it takes to serve what was asked for.
    mutating func run(days: Int) {
        for day in 0..<days { plan(day: day) }
        for timeline in subjects.indices { lookLater(timeline) }
        let end = start + .days(days)
        while let (time, event) = queue.next() {
            now = time
            if now >= end, !subjects.contains(where: { $0.budgetedSince != nil || $0.freeSince != nil }) { return }
            guard now < end + .days(2) else { return problems.append("requests are left two days later") }
            handle(event)
        }
    }

    /// What people and services do on a day.
    private mutating func plan(day: Int) {
        let midnight = start + .days(day)
        for person in people.indices {
            let waking = people[person].sleeps - people[person].wakes
            let looks = Int(Double(waking) * people[person].looksAnHour)
            for _ in 0..<looks {
                let second = Int.random(in: 0..<(3600 * waking), using: &random)
                queue.add(.look(person: person), at: midnight + .hours(people[person].wakes) + .seconds(second))
            }
        }
        for timeline in subjects.indices where timeline != dormant {
            let (pushes, changes) =
                switch subjects[timeline].kind {
                case .weather: (2, 1)
                case .calendar: (4, 3)
                case .stocks: (6, 1)
                case .reminders: (8, 4)
                case .photos: (1, 1)
                case .scores: (60, 0)
                }
            for _ in 0..<pushes { queue.add(.push(timeline: timeline), at: anyTime(of: midnight)) }
            for _ in 0..<changes {
                queue.add(.foreground(timeline: timeline), at: anyTime(of: midnight))
                queue.add(.background(timeline: timeline), at: anyTime(of: midnight))
            }
        }
        switch day {
        // Summer time ends, say: everything is reloaded, free of budget.
        case 2: queue.add(.bump(urgency: .free), at: midnight + .hours(2))
        case 3: queue.add(.bump(urgency: .budgeted), at: midnight + .hours(13))
        case 4: queue.add(.burst, at: midnight + .hours(19))
        case 5: queue.add(.lookAtDormant, at: midnight + .hours(18))
        default: break
        }
    }

    private mutating func anyTime(of midnight: Timestamp) -> Timestamp {
        midnight + .milliseconds(Int.random(in: 0..<86_400_000, using: &random))
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .look(let person): for widget in people[person].widgets { view(widget) }
        case .lookAtDormant: for widget in subjects[dormant].widgets { view(widget) }
        case .push(let timeline): request(timeline, reason: .push)
        case .foreground(let timeline): request(timeline, reason: .foreground)
        case .background(let timeline): request(timeline, reason: .background)
        case .burst: burst()
        case .bump(let urgency):
            scope.app.bump(urgency: urgency)
            for timeline in subjects.indices { ask(timeline, urgency) }
            queue.add(.sweep(from: 0), at: now + .seconds(1))
        case .sweep(let first): sweep(from: first)
        case .work(let timeline): work(timeline)
        case .fetched(let timeline, let claim, let rule, let ledger):
            fetched(timeline, claim: claim, rule: rule, ledger: ledger)
        }
    }

    // MARK: Requests

    private mutating func view(_ index: Int) {
        summary.views += 1
        guard !ViewStatistics.counted([now], after: widgets[index].lastViewed).isEmpty else { return }
        summary.countedViews += 1
        let last = widgets[index].lastViewed
        widgets[index].rate = ViewStatistics.rate(widgets[index].rate, viewedAfter: last.map { now - $0 })
        widgets[index].lastViewed = now
        if subjects[widgets[index].timeline].state.view(at: now) { lookLater(widgets[index].timeline) }
    }

    private mutating func request(_ timeline: Int, reason: ReloadReason) {
        summary.requests += 1
        _ = subjects[timeline].state.request(urgency: reason.urgency, lane: reason.lane, at: now)
        ask(timeline, reason.urgency)
        lookLater(timeline)
    }

    /// Notes that it was asked for, to see when it is served.
    private mutating func ask(_ timeline: Int, _ urgency: RequestUrgency) {
        if urgency == .budgeted {
            subjects[timeline].budgetedSince = subjects[timeline].budgetedSince ?? now
            subjects[timeline].budgetedDuringFetch = subjects[timeline].budgetedDuringFetch ?? now
        } else {
            subjects[timeline].freeSince = subjects[timeline].freeSince ?? now
            subjects[timeline].freeDuringFetch = subjects[timeline].freeDuringFetch ?? now
        }
    }

    /// A thousand pushes within a minute to the timeline that has the longest to wait for a token.
    private mutating func burst() {
        let waiting = subjects.indices.filter { !subjects[$0].state.isLeased && $0 != dormant }
        guard let timeline = waiting.max(by: { subjects[$0].state.eligibleAt < subjects[$1].state.eligibleAt })
        else { return }
        summary.burst = Burst(timeline: timeline, at: now, eligibleAt: subjects[timeline].state.eligibleAt)
        for push in 0..<1000 { queue.add(.push(timeline: timeline), at: now + .milliseconds(60 * push)) }
    }

    /// Twenty a second.
    private mutating func sweep(from first: Int) {
        let chunk = first..<min(first + 20, subjects.count)
        for timeline in chunk {
            _ = subjects[timeline].state.sweep(to: scope, at: now)
            lookLater(timeline)
        }
        // Those that were leased are found again.
        if chunk.upperBound < subjects.count {
            queue.add(.sweep(from: chunk.upperBound), at: now + .seconds(1))
        } else if subjects.contains(where: { $0.state.sweptGeneration < scope.sum }) {
            queue.add(.sweep(from: 0), at: now + .seconds(1))
        }
    }

    // MARK: Work

    /// Puts the next look of a worker at a timeline on the queue.
    private mutating func lookLater(_ timeline: Int) {
        let due = max(subjects[timeline].state.dueAt, now)
        guard due < .distantFuture, due < subjects[timeline].queuedFor ?? .distantFuture else { return }
        subjects[timeline].queuedFor = due
        queue.add(.work(timeline: timeline), at: due)
    }

    private func views(of timeline: Int) -> ViewStatistics {
        var views = ViewStatistics()
        for index in subjects[timeline].widgets {
            let widget = widgets[index]
            let active = max(widget.placedAt, widget.lastViewed ?? .distantPast)
            views.lastActive = max(views.lastActive ?? .distantPast, active)
            views.lastPlaced = max(views.lastPlaced ?? .distantPast, widget.placedAt)
            guard let last = widget.lastViewed else { continue }
            views.viewsADay += ViewStatistics.decayed(widget.rate, for: now - last) * ViewStatistics.viewsPerHour
        }
        return views
    }

    private mutating func work(_ timeline: Int) {
        if subjects[timeline].queuedFor == now { subjects[timeline].queuedFor = nil }
        defer { lookLater(timeline) }
        guard subjects[timeline].state.isDue(at: now) else { return }
        claims += 1
        let views = views(of: timeline)
        guard
            let claim = subjects[timeline].state.claim(
                number: claims, lease: .seconds(30), in: scope, views: views, at: now)
        else { return }
        summary.claims += 1
        switch subjects[timeline].rules.plan(claim.state, at: now) {
        case .reload(let rule, let ledger):
            if rule == .free || rule == .first, ledger != claim.state.ledger { problems.append("\(rule) cost a token") }
            check(claim, rule: rule, of: subjects[timeline])
            subjects[timeline].budgetedDuringFetch = nil
            subjects[timeline].freeDuringFetch = nil
            // One worker of five hundred does not come back in time.
            let isLost = Int.random(in: 0..<500, using: &random) == 0
            if isLost { summary.lostLeases += 1 }
            let fetch = Duration.milliseconds(Int.random(in: 50..<2000, using: &random) + (isLost ? 60_000 : 0))
            queue.add(.fetched(timeline: timeline, claim: claim, plan: rule, ledger: ledger), at: now + fetch)
        case .wait(let until, _):
            summary.deferrals += 1
            subjects[timeline].deferrals.append(now)
            if until <= now { problems.append("deferred to the past") }
            _ = subjects[timeline].state.wait(claim, until: until, at: now)
        case .sleep: _ = subjects[timeline].state.sleep(claim, at: now)
        }
    }

    /// Spacing of what has to keep it.
    private mutating func check(_ claim: TimelineClaim, rule: ReloadRule, of subject: Subject) {
        guard let last = subject.state.renderedAt, now - last < subject.rules.schedule.spacing else { return }
        if rule == .paced || rule == .token || subject.kind == .weather {
            problems.append("\(subject.kind) reloaded \(now - last) after the last time, as \(rule)")
        }
    }

    private mutating func fetched(_ timeline: Int, claim: TimelineClaim, rule: ReloadRule, ledger: BudgetLedger) {
        defer { lookLater(timeline) }
        var subject = subjects[timeline]
        // The provider fails twice in a hundred.
        if Int.random(in: 0..<50, using: &random) == 0 {
            let backoff = Backoff(base: .seconds(1), cap: .minutes(5))
            let delay = backoff.delay(attempt: claim.attempts + 1, using: &random)
            if subjects[timeline].state.fail(claim, delay: delay, at: now) != .fenced { summary.failures += 1 }
            return
        }
        let (policy, lastEntry) = subject.kind.policy(at: now)
        let renderedAt = subject.state.renderedAt
        let ending = subject.state.complete(
            subject.rules.completion(
                of: claim, timeline: subject.id, policy: policy, lastEntry: lastEntry, ledger: ledger,
                publishedHash: ContentHash(high: UInt64(claim.number), low: 0), at: now), at: now)
        guard ending != .fenced else {
            summary.fenced += 1
            return
        }
        subject.reloads.append(
            Reload(
                at: claim.claimedAt, rule: rule, budget: subject.rules.reloadsADay(claim.state, at: claim.claimedAt),
                gap: renderedAt.map { claim.claimedAt - $0 }))
        summary.reloads[rule, default: 0] += 1
        serve(&subject, claim)
        subjects[timeline] = subject
    }

    /// What was asked for before the fetch began has been served.
    private mutating func serve(_ subject: inout Subject, _ claim: TimelineClaim) {
        if let since = subject.budgetedSince, since <= claim.claimedAt {
            summary.longestBudgetedWait = max(summary.longestBudgetedWait, now - since)
            subject.budgetedSince = subject.budgetedDuringFetch
        }
        if let since = subject.freeSince, since <= claim.claimedAt {
            if subject.rules.isShared {
                summary.longestSharedFreeWait = max(summary.longestSharedFreeWait, now - since)
            } else {
                summary.longestFreeWait = max(summary.longestFreeWait, now - since)
            }
            subject.freeSince = subject.freeDuringFetch
        }
    }
}
