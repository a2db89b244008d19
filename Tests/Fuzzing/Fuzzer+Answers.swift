// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

extension Fuzzer {
    /// IDs in the examples' answers, and one that is not.
    private func requested(_ schema: String) -> [TimelineID] {
        var ids: [TimelineID] = []
        for document in corpus.provider[schema] ?? [] {
            guard case .object(let body)? = try? JSONValue.parse(document) else { continue }
            for member in body.members {
                guard case .array(let elements) = member.value else { continue }
                for case .object(let element) in elements {
                    if case .string(let text)? = element["id"], let id = TimelineID(text), !ids.contains(id) {
                        ids.append(id)
                    }
                }
            }
        }
        return ids + [TimelineID(high: 1, low: 2)]
    }

    func timelines(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: corpus.provider["timelines.response"] ?? [])
        let requested = requested("timelines.response")
        // Timelines of several kinds, as in a batch.
        let volatileFields = ["", "/lines", "/light/sky", "/0"].map {
            [JSONPointer($0)].compactMap(\.self)
        }
        let timelines = requested.map { RequestedTimeline($0, volatileFields: random.any([[]] + volatileFields)) }
        let (entries, content) = (random.any([3, 1000]), random.any([500, 262_144]))
        return try answer(bytes, of: requested) { () throws(JSONError) in
            try ProviderResponse.parse(
                bytes, requested: timelines, maximumEntries: entries, maximumContentBytes: content)
        } check: { (outcome) throws(FuzzFinding) in
            switch outcome {
            case .success(let timeline):
                try Self.check(timeline, entries: entries, bytes: content)
                return "timeline"
            case .failure(let failure): return try Self.check(failure)
            }
        }
    }

    private static func check(_ timeline: ParsedTimeline, entries: Int, bytes: Int) throws(FuzzFinding) {
        try expect((1...entries).contains(timeline.entryCount), "\(timeline.entryCount) entries")
        try expect(timeline.content.count <= bytes, "\(timeline.content.count) bytes are stored")
        try expect(timeline.firstEntryDate <= timeline.lastEntryDate, "its entries are not sorted")
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(timeline.content)
        } catch {
            throw FuzzFinding("the stored content is not JSON: \(error)")
        }
        try expect(value.canonicalBytes == timeline.content, "the stored content is not canonical")
        // PostgreSQL cannot store a zero byte; escaped, it is plain text.
        try expect(!timeline.content.contains(0), "the stored content has a zero byte")
    }

    /// Checks the failure of an element, whose message is logged and shown by `explain`.
    private static func check(_ failure: ProviderFailure) throws(FuzzFinding) -> String {
        let (text, retryAfter) = (failure.message, failure.retryAfter ?? .zero)
        try expect(text.utf8.count <= 2 * maximumMessageBytes, "\(text.utf8.count) bytes in a message")
        try expect(!Text.containsControlCharacter(text), "a control character in a message")
        try expect(retryAfter <= .seconds(86_400) && retryAfter >= .zero, "retry after \(retryAfter)")
        return failure.reason == .provider ? "error" : failure.reason.rawValue
    }

    func snapshots(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: corpus.provider["snapshot.response"] ?? [])
        let requested = requested("snapshot.response")
        let limit = random.any([200, 262_144])
        return try answer(bytes, of: requested) { () throws(JSONError) in
            try FallbackResponse.snapshots(bytes, requested: requested, maximumBytes: limit)
        } check: { (outcome) throws(FuzzFinding) in
            return try Self.check(outcome, of: bytes.count, atMost: limit)
        }
    }

    func placeholders(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: corpus.provider["placeholder.response"] ?? [])
        let requested = requested("placeholder.response")
        return try answer(bytes, of: requested) { () throws(JSONError) in
            try FallbackResponse.placeholders(bytes, requested: requested)
        } check: { (outcome) throws(FuzzFinding) in
            return try Self.check(outcome, of: bytes.count, atMost: KindDefinition.maximumPlaceholderBytes)
        }
    }

    func options(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: corpus.provider["options.response"] ?? [])
        recorder?.note(bytes)
        let parameter = IntentParameter(
            name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true)
        let options: IntentOptions
        do throws(JSONError) {
            options = try IntentOptions(bytes, of: parameter)
        } catch {
            try Self.check(error, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "\(error.kind)")
        }
        for item in options.sections.flatMap(\.items) {
            try Self.expect(!item.display.isEmpty, "an option without a text")
            try Self.expect(!Text.containsControlCharacter(item.display), "a control character in an option")
        }
        return FuzzOutcome(accepted: bytes.count)
    }

    private static func check(
        _ outcome: Result<[UInt8], ProviderFailure>, of bytes: Int, atMost limit: Int
    ) throws(FuzzFinding) -> String {
        switch outcome {
        case .success(let value):
            try expect(value.count <= limit, "\(value.count) bytes are stored")
            let parsed = try? JSONValue.parse(value)
            try expect(parsed != nil, "the stored content is not JSON")
            return "value"
        case .failure(let failure): return try check(failure)
        }
    }

    /// Checks properties of all answers. An answer is accepted if it contains a requested element.
    private func answer<Value>(
        _ bytes: [UInt8], of requested: [TimelineID], _ parse: () throws(JSONError) -> ProviderAnswer<Value>,
        check: (Result<Value, ProviderFailure>) throws(FuzzFinding) -> String
    ) throws(FuzzFinding) -> FuzzOutcome {
        recorder?.note(bytes)
        let answer: ProviderAnswer<Value>
        do throws(JSONError) {
            answer = try parse()
        } catch {
            try Self.check(error, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "\(error.kind)")
        }
        try Self.expect(
            answer.outcomes.count == requested.count, "\(answer.outcomes.count) of \(requested.count) outcomes")
        let kept = ProviderAnswer<Value>.keptComplaints
        try Self.expect(answer.foreignIDs.count <= kept, "\(answer.foreignIDs.count) foreign ids are kept")
        for id in answer.foreignIDs {
            try Self.expect(id.utf8.count <= 1_024, "an id of \(id.utf8.count) bytes is kept")
        }
        try Self.expect(answer.unreadable.count <= kept, "\(answer.unreadable.count) complaints are kept")
        for error in answer.unreadable { try Self.check(error, of: bytes.count) }
        // The verdict is that of the first existing element.
        var verdict: String?
        for outcome in answer.outcomes {
            let found = try check(outcome)
            if verdict == nil, outcome != .failure(.missing) { verdict = found }
        }
        guard let verdict else { return FuzzOutcome(refused: bytes.count, as: "missing") }
        return FuzzOutcome(accepted: bytes.count, as: verdict)
    }
}
