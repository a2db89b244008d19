import ReloadWorkers
import ServiceLifecycle
import WidgetModel

/// Asks a provider for all widgets of a preview at intervals.
struct PreviewPoller: Sendable {
    let trial: ProviderTrial
    let kinds: [TrialKind]
    let interval: Duration
    /// Has a widget for each kind and family from the beginning.
    let state: PreviewState
    /// Subjects of each kind, by family.
    private let subjects: [[TrialSubject]]

    init(trial: ProviderTrial, kinds: [TrialKind], user: String, environment: WidgetEnvironment, interval: Duration) {
        (self.trial, self.kinds, self.interval) = (trial, kinds, interval)
        subjects = kinds.map { kind in
            kind.definition.families.map { family in
                TrialSubject(kind, user: user, family: family, environment: environment, configuration: .empty)
            }
        }
        state = PreviewState(
            zip(kinds, subjects).flatMap { kind, subjects in
                subjects.map { PreviewState.Widget(kind: kind.definition, subject: $0) }
            })
    }

    func run() async throws {
        while !Task.isCancelled {
            var first = 0
            for (kind, subjects) in zip(kinds, subjects) {
                try await poll(kind, subjects, first: first)
                first += subjects.count
            }
            try await Task.sleep(for: interval)
        }
    }

    /// Families that the kind does not vary by have one timeline.
    private func poll(_ kind: TrialKind, _ subjects: [TrialSubject], first: Int) async throws {
        var known: Set<TimelineID> = []
        let distinct = subjects.filter { known.insert($0.id).inserted }
        let answers = try await trial.timelines(of: distinct, kind)
        let failure = answers.lazy.compactMap(\.timing.failure).first
        let elements = Dictionary(answers.flatMap(\.elements).map { ($0.subject.id, $0) }) { first, _ in first }
        for (index, subject) in subjects.enumerated() {
            let element = elements[subject.id]
            let problem = element.map { ProviderFailure($0.outcome)?.message } ?? failure?.message
            state.update(first + index, element?.value, problem: problem)
        }
    }
}
