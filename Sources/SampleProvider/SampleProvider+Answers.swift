import Hummingbird
import Synchronization
import WidgetModel

extension SampleProvider {
    /// `{"timelines": […]}` with what it says of each timeline; nil when the request is to fail as a whole.
    func timelines(
        _ batch: SampleBatch, contents: [any SampleContent.Type], at time: Timestamp
    ) -> (bytes: [UInt8], answers: [SampleStatistics.Answer])? {
        let revisions = revisions.next(of: batch.requests.lazy.map(\.identity))
        // The same requests fail in every run, whatever order they come in.
        let batchIdentity = zip(batch.requests, revisions).reduce(UInt64(0)) { sum, fetch in
            sum &+ SampleRandom.mix(fetch.0.identity &+ UInt64(fetch.1))
        }
        guard !fails(batchIdentity, share: faults.requestFailures) else { return nil }

        var answers: [SampleStatistics.Answer] = []
        answers.reserveCapacity(batch.requests.count)
        var writer = SampleWriter(reserving: 64 + batch.requests.count * 600)
        writer.beginObject()
        writer.key("timelines")
        writer.beginArray()
        for ((request, content), revision) in zip(zip(batch.requests, contents), revisions) {
            let isFailed = fails(request.identity &+ UInt64(revision), share: faults.timelineFailures)
            writer.beginObject()
            writer.key("id")
            writer.string(request.id)
            if isFailed {
                writer.key("error")
                writer.beginObject()
                writer.key("code")
                writer.string("unavailable")
                writer.key("message")
                writer.string("a fault that was asked for")
                writer.endObject()
            } else {
                content.writeTimeline(
                    SampleMoment(request: request, revision: revision, seed: seed, now: time), to: &writer)
            }
            writer.endObject()
            answers.append(
                SampleStatistics.Answer(
                    id: request.id, kind: request.kind, revision: revision, isFailed: isFailed))
        }
        writer.endArray()
        writer.endObject()
        return (writer.bytes, answers)
    }

    /// The quick answer to a load test's request, where nothing is to go wrong; nil for what only the slow way can answer.
    func loadTimelines(_ body: [UInt8]) -> Response? {
        guard faults.latency == .zero, faults.requestFailures == 0, faults.timelineFailures == 0 else { return nil }
        // As many numbers as any request may have timelines.
        let number = loadNumber.wrappingAdd(UInt64(SampleBatch.maximumRequests), ordering: .relaxed).oldValue
        guard let answer = loadAnswer.answer(body, from: number), answer.count <= SampleBatch.maximumRequests else {
            return nil
        }
        counters.answered(app: .load, kinds: answer.kinds)
        return Self.respond(.ok, answer.bytes)
    }

    /// `{"snapshots": [{"id", "entry"}]}`; the revision stays as it is, as nothing is regenerated.
    func snapshots(_ batch: SampleBatch, contents: [any SampleContent.Type], at time: Timestamp) -> [UInt8] {
        list("snapshots", of: batch, contents) { request, content, writer in
            writer.key("entry")
            content.writeSnapshot(SampleMoment(request: request, revision: 0, seed: seed, now: time), to: &writer)
        }
    }

    /// `{"placeholders": [{"id", "content"}]}`
    func placeholders(_ batch: SampleBatch, contents: [any SampleContent.Type]) -> [UInt8] {
        list("placeholders", of: batch, contents) { request, content, writer in
            writer.key("content")
            content.writePlaceholder(request, to: &writer)
        }
    }

    /// `{"sections": [{"title", "options": [{"identifier", "display"}]}]}`; nil when the kind has no such parameter.
    func options(_ question: SampleQuestion, _ content: any SampleContent.Type) -> [UInt8]? {
        guard let sections = content.options(of: question.parameter ?? "", search: question.search) else { return nil }
        let answer: JSONValue = [
            "sections": .array(
                sections.map { section in
                    ["title": .string(section.title), "options": .array(section.options.map(\.json))]
                })
        ]
        return answer.encoded
    }

    /// `{"values": {…}}`
    func defaults(_ content: any SampleContent.Type) -> [UInt8] {
        let values = content.defaults.map { JSONObject.Member(key: $0.key, value: $0.value.json) }
        return JSONValue.object(["values": .object(JSONObject(values))]).encoded
    }

    private func list(
        _ name: StaticString, of batch: SampleBatch, _ contents: [any SampleContent.Type],
        write: (SampleRequest, any SampleContent.Type, inout SampleWriter) -> Void
    ) -> [UInt8] {
        var writer = SampleWriter(reserving: 64 + batch.requests.count * 400)
        writer.beginObject()
        writer.key(name)
        writer.beginArray()
        for (request, content) in zip(batch.requests, contents) {
            writer.beginObject()
            writer.key("id")
            writer.string(request.id)
            write(request, content, &writer)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private func fails(_ identity: UInt64, share: Double) -> Bool {
        guard share > 0 else { return false }
        return Double(SampleRandom.mix(identity ^ seed) >> 11) / Double(UInt64(1) << 53) < share
    }
}

extension SampleSection.Option {
    var json: JSONValue { ["identifier": .string(identifier), "display": .string(display)] }
}

extension [SampleSection] {
    /// The options that a search finds; nil finds everything.
    func matching(_ term: String?) -> [SampleSection] {
        guard let term = term?.lowercased(), !term.isEmpty else { return self }
        return compactMap { section in
            let found = section.options.filter {
                $0.display.lowercased().contains(term) || $0.identifier.lowercased().contains(term)
            }
            return found.isEmpty ? nil : SampleSection(section.title, found)
        }
    }
}
