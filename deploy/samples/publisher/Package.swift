// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A program of its own that publishes with the library FreshetClient.
// snippet: manifest
let package = Package(
    name: "publisher",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "freshet", path: "../../.."),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "publisher",
            dependencies: [
                .product(name: "FreshetClient", package: "freshet"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ])
    ]
)
// snippet end
