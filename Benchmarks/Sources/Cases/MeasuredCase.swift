// SPDX-License-Identifier: Apache-2.0

/// Something that Freshet does for many messages or timelines, ready to be done over and over.
public struct MeasuredCase: Sendable {
    public let name: String
    /// How many messages or timelines one run handles.
    public let items: Int
    /// What a run answers that has done all of its work: less work must not pass for a faster one.
    public let expected: Int
    /// Does it once; what comes of it is counted into the answer, so that nothing is left out.
    public let run: @Sendable () -> Int

    /// Every case, with what it works on; it follows from nothing but this code.
    public static func all() throws -> [MeasuredCase] {
        let ingest = IngestCases()
        let workers = WorkerCases()
        let store = StoreCases()
        return [
            ingest.decode, ingest.decodeWidgets, ingest.fold, ingest.identity, workers.parse, store.claim,
            store.store, store.mark, workers.pipeline, workers.pipelineOfFour, workers.publish, try workers.producer(),
        ]
    }
}
