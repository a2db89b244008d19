// SPDX-License-Identifier: Apache-2.0

extension ConsumerLoop {
    /// Defaults that the caller may override.
    static func defaults(_ configuration: KafkaConfiguration) -> [String: String] {
        var defaults = defaults
        // Small responses keep broker and receiver busy at the same time; librdkafka's default is 50 MiB. The limit
        // must not be less than the largest message.
        if configuration.properties["message.max.bytes"] == nil { defaults["fetch.max.bytes"] = "8388608" }
        return defaults
    }

    private static let defaults: [String: String] = [
        "client.id": "freshet",
        // Bounds the prefetched values. Responses under way and about 700 bytes a message come on top.
        "queued.max.messages.kbytes": "2048",
        "socket.keepalive.enable": "true",
        // A fetch is a small request, which must not wait for an acknowledgement.
        "socket.nagle.disable": "true",
        // Fetches return at once. Messages gather here while the receiver is busy.
        "fetch.min.bytes": "1",
        // Each broker gets one fetch at a time, for the partitions that were fetchable when it was sent. A partition
        // that becomes fetchable later waits for the response, at most this long. librdkafka's default is half a
        // second.
        "fetch.wait.max.ms": "20",
        // The byte limit above is the effective one. librdkafka checks a full queue again only after a pause.
        "queued.min.messages": "1000000",
        // Longest wait for a response. If a broker's host dies, its partitions stand still for this time. A fetch of
        // `fetch.max.bytes` must be transferred within it. librdkafka's default is a minute.
        "socket.timeout.ms": "30000",
        // Pause after an error such as a moved leader. librdkafka's default is half a second.
        "fetch.error.backoff.ms": "50",
        // Longest pause between attempts to connect. librdkafka's default is 10 seconds.
        "reconnect.backoff.max.ms": "1000",
        // Interval of metadata requests while a leader is unknown.
        "topic.metadata.refresh.fast.interval.ms": "100",
    ]

    /// Interval at which librdkafka checks whether a full prefetch queue has room again. Versions without the property
    /// check every second, unless ``ConsumerLoop`` wakes them.
    static let newerDefaults: [String: String] = ["fetch.queue.backoff.ms": "20"]

    /// Properties on which exactly-once positions depend.
    static func fixed(_ configuration: KafkaConsumerConfiguration) -> [String: String] {
        var fixed = [
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            // The end of a log tells the position behind markers of transactions, and the last stable offset.
            "enable.partition.eof": "true",
        ]
        if !configuration.group.isEmpty { fixed["group.id"] = configuration.group }
        return fixed
    }
}
