import HTTPTypes
import Hummingbird
import JSON
import WidgetModel
import WidgetStore

/// The pages of dead letters.
extension ConsoleVisit {
    private static let filterNames = ["cause", "topic", "since", "until", "all"]

    /// Waiting dead letters, or with `all` those that were replayed or discarded too.
    func deadLetters() async throws -> ConsolePage {
        var filter: [String: String?] = [:]
        for name in Self.filterNames { filter[name] = query(name) }
        let found = try await call("consoleLetters", query: filter)
        let letters = found["letters"]?.arrayValue ?? []
        let causes = DeadLetterCause.allCases.map { cause in
            ["name": cause.rawValue, "isChosen": filter["cause"] == cause.rawValue] as [String: Any]
        }
        var view = fields(filter)
        view["letters"] = ConsoleView.value(.array(letters))
        view["isEmpty"] = letters.isEmpty
        view["hasMore"] = found["more"] == .bool(true)
        view["limit"] = "\(ConsoleRoutes.letterLimit)"
        view["causes"] = causes
        view["message"] = message ?? ""
        return page("dead-letters", "Dead letters", view)
    }

    func deadLetter() async throws -> ConsolePage {
        let id = path("letter")
        let letter = try await call("getDeadLetter", ["letter": id])
        var view = letter.objectValue.map(ConsoleView.members) ?? [:]
        view["isWaiting"] = letter["state"] == "waiting"
        view["message"] = message ?? ""
        // The payload is shown with line breaks if it is JSON.
        let payload = letter["payload"]?.stringValue ?? ""
        view["payload"] = (try? JSONValue.parse(payload)).map(PrettyJSON.text) ?? payload
        view["isLong"] = payload.utf8.count >= RouteDependencies.payloadLimit
        return page("dead-letter", "Dead letter \(id)", view)
    }

    /// Replays or discards what the form selects. Without a confirmation it shows what would happen.
    func settle(_ fields: ConsoleFields) async throws -> Response {
        let action = path("letter")
        let routes = ["replay": "consoleReplay", "discard": "consoleDiscard"]
        guard let route = routes[action] else { throw Problem.noRoute(request.uri.path) }
        var filter: [String: String?] = [:]
        for name in Self.filterNames + ["letter"] where name != "all" { filter[name] = fields[name] }
        let isConfirmed = fields["confirmed"] == "yes"
        // The confirmation must not include letters that have arrived since the dry run.
        if !isConfirmed, fields["letter"] == nil {
            let now = WallClock.now()
            let until = fields["until"].flatMap { Timestamp(rfc3339: $0) }
            // The route refuses a text that is no time.
            if fields["until"] == nil || until.map({ $0 > now }) == true { filter["until"] = now.rfc3339 }
        }
        let result = try await call(
            route, query: filter.merging(["dryRun": isConfirmed ? "false" : "true"]) { $1 })
        let letter = filter["letter"].flatMap { $0 }
        var view = self.fields(filter)
        view["letter"] = letter ?? ""
        view["result"] = ConsoleView.value(result)
        view["isReplay"] = action == "replay"
        view["action"] = action
        view["isDone"] = isConfirmed
        let terms = [("Cause", "cause"), ("Topic", "topic"), ("Kept since", "since"), ("Kept before", "until")]
        view["terms"] = terms.compactMap { name, key in
            filter[key].flatMap { $0 }.map { ["name": name, "value": $0] }
        }
        view["failures"] = (result["failures"]?.objectValue?.members ?? []).map { member in
            ["code": member.key, "count": member.value.numberValue?.text ?? "0"]
        }
        let title = isConfirmed ? "Done" : action == "replay" ? "Replay?" : "Discard?"
        return page("settle", title, view).response()
    }

    private func fields(_ filter: [String: String?]) -> [String: Any] {
        filter.mapValues { ($0 ?? "") as Any }
    }
}
