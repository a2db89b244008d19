import Synchronization
import WidgetModel
import WidgetStore

/// Widgets of a preview.
final class PreviewState: Sendable {
    struct Widget: Sendable {
        let kind: KindDefinition
        let subject: TrialSubject
        /// The last timeline that could be read.
        var timeline: ParsedTimeline?
        /// Failure of the last request.
        var problem: String?
        /// Grows with each visible change.
        var version = 0

        /// Takes over an answer.
        ///
        /// - Returns: whether something visible has changed.
        mutating func update(_ new: ParsedTimeline?, problem newProblem: String?) -> Bool {
            let isSame = problem == newProblem && (new == nil || new?.hash == timeline?.hash)
            guard !isSame else { return false }
            if let new { timeline = new }
            problem = newProblem
            version += 1
            return true
        }
    }

    private struct Contents {
        var widgets: [Widget] = []
        var version = 0
        var isClosed = false
    }

    private let contents: Mutex<Contents>
    private let changes = WorkSignal()

    /// All widgets, with the number of the last change.
    var current: (widgets: [Widget], version: Int) { contents.withLock { ($0.widgets, $0.version) } }

    init(_ widgets: [Widget]) { contents = Mutex(Contents(widgets: widgets)) }

    /// Takes over an answer for the widget at an index.
    func update(_ index: Int, _ timeline: ParsedTimeline?, problem: String?) {
        let isChanged = contents.withLock { contents in
            guard contents.widgets[index].update(timeline, problem: problem) else { return false }
            contents.version += 1
            return true
        }
        if isChanged { changes.signal(.timelines) }
    }

    /// Ends all waits.
    func close() {
        contents.withLock { $0.isClosed = true }
        changes.signal(.timelines)
    }

    /// Number of the last change once it differs from `version`; nil at the end.
    func version(otherThan version: Int) async throws -> Int? {
        while true {
            let mark = changes.mark(.timelines)
            let (current, isClosed) = contents.withLock { ($0.version, $0.isClosed) }
            if isClosed { return nil }
            if current != version { return current }
            try await changes.wait(past: mark)
        }
    }
}
