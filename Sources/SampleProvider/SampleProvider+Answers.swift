import Hummingbird
import Synchronization
package import WidgetModel

extension SampleProvider {
    /// `{"timelines": […]}`, and the outcome of each timeline; nil if the whole request fails as an injected fault.
    func timelines(
        _ batch: SampleBatch, contents: [any SampleContent.Type], at time: Timestamp
    ) -> (bytes: [UInt8], answers: [SampleStatistics.Answer])? {
        let states = states(of: batch.requests, at: time)
        // The same requests fail in every run, in any order.
        let batchIdentity = zip(batch.requests, states).reduce(UInt64(0)) { sum, fetch in
            sum &+ SampleRandom.mix(fetch.0.identity &+ UInt64(fetch.1.revision))
        }
        guard !fails(batchIdentity, share: faults.requestFailures) else { return nil }

        var answers: [SampleStatistics.Answer] = []
        var timelines: [JSONValue] = []
        for ((request, content), state) in zip(zip(batch.requests, contents), states) {
            let isFailed = fails(request.identity &+ UInt64(state.revision), share: faults.timelineFailures)
            if isFailed {
                timelines.append([
                    "id": .string(request.id),
                    "error": ["code": "unavailable", "message": "a fault that was asked for"],
                ])
            } else {
                let timeline = content.timeline(
                    SampleMoment(request: request, revision: state.revision, seed: seed, now: state.time))
                timelines.append([
                    "id": .string(request.id), "policy": timeline.policy, "entries": .array(timeline.entries),
                ])
            }
            answers.append(
                SampleStatistics.Answer(
                    id: request.id, kind: request.kind, revision: state.revision, isFailed: isFailed))
        }
        return (JSONValue.object(["timelines": .array(timelines)]).encoded, answers)
    }

    /// Number of each content's last change, and the first of its dates.
    private func states(of requests: [SampleRequest], at time: Timestamp) -> [(revision: Int, time: Timestamp)] {
        guard let changeInterval else {
            return revisions.next(of: requests.lazy.map(\.identity)).map { ($0, time) }
        }
        return requests.map { lastChange(of: $0, every: changeInterval, at: time) }
    }

    /// The last change of a content that changes with time. Contents change at different seconds.
    private func lastChange(
        of request: SampleRequest, every interval: Duration, at time: Timestamp
    ) -> (revision: Int, time: Timestamp) {
        let seconds = max(2, interval.wholeMicroseconds / 1_000_000)
        let offset = 1 + Int64(SampleRandom.mix(request.identity) % UInt64(seconds - 1))
        let number = (time.microseconds / 1_000_000 - offset) / seconds
        return (Int(number), Timestamp(microseconds: (number * seconds + offset) * 1_000_000))
    }

    /// The fast answer to a load test's request; nil if faults are injected, or the body is not such a request.
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
        list("snapshots", of: batch, contents, "entry") { request, content in
            let state = changeInterval.map { lastChange(of: request, every: $0, at: time) } ?? (revision: 0, time: time)
            return content.timeline(
                SampleMoment(request: request, revision: state.revision, seed: seed, now: state.time)
            ).entries[0]
        }
    }

    /// `{"placeholders": [{"id", "content"}]}`
    func placeholders(_ batch: SampleBatch, contents: [any SampleContent.Type]) -> [UInt8] {
        list("placeholders", of: batch, contents, "content") { _, content in content.placeholder }
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
        _ name: String, of batch: SampleBatch, _ contents: [any SampleContent.Type], _ member: String,
        value: (SampleRequest, any SampleContent.Type) -> JSONValue
    ) -> [UInt8] {
        let elements = zip(batch.requests, contents).map { request, content -> JSONValue in
            ["id": .string(request.id), member: value(request, content)]
        }
        return JSONValue.object([name: .array(elements)]).encoded
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

extension SampleProvider {
    /// Answers a request for timelines at a time, as over HTTP; nil unless one of the apps has all the kinds.
    package func timelines(_ body: [UInt8], at time: Timestamp) -> [UInt8]? {
        for app in SampleApp.allCases where app != .load {
            guard let batch = try? SampleBatch.parse(body, app: app), let contents = batch.contents(of: app) else {
                continue
            }
            return timelines(batch, contents: contents, at: time)?.bytes
        }
        return nil
    }
}
