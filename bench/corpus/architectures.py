# SPDX-License-Identifier: Apache-2.0
"""Architectures that the corpus exports, with seeded random weights: nothing is downloaded.

An entry gives a module in evaluation mode, example inputs by name, and which dimensions a dynamic export leaves open."""
import dataclasses

import torch

IMAGE = {0: "batch", 2: "height", 3: "width"}
BATCH = {0: "batch"}
TOKENS = {0: "batch", 1: "sequence"}


@dataclasses.dataclass
class Entry:
    module: torch.nn.Module
    inputs: dict  # name: example tensor; batches of 2, since exporters take a size of 1 for a constant
    dims: dict  # name: {axis: name of the dimension}
    sizes: tuple = ()  # of named dimensions, to try a dynamic export at: dicts


class Results(torch.nn.Module):
    """A Hugging Face model as a function of its tensors, in order, that gives its first result."""

    def __init__(self, module, names, **fixed):
        super().__init__()
        self.module, self.names, self.fixed = module, names, fixed

    def forward(self, *tensors):
        result = self.module(**dict(zip(self.names, tensors)), **self.fixed)
        return result if isinstance(result, torch.Tensor) else result[0]


def _tokens(length, batch=2, words=1000):
    return torch.randint(3, words, (batch, length))


def _timm(name, size=224, dims=None, step=32):
    import timm

    sizes = ({"batch": 1}, {"batch": 3})
    if dims is None:
        dims, sizes = IMAGE, ({"batch": 1, "height": size + step, "width": size}, {"batch": 3, "height": size - step, "width": size + step})
    return Entry(timm.create_model(name, pretrained=False), {"x": torch.rand(2, 3, size, size)}, {"x": dims}, sizes)


def _torchvision(name, size=224, dims=IMAGE, **options):
    import torchvision

    if "backbone" in options:
        options["weights_backbone"] = options.pop("backbone")
    module = torchvision.models.get_model(name, weights=None, **options)
    sizes = ({"batch": 1}, {"batch": 3})
    if dims is IMAGE:
        sizes = ({"batch": 1, "height": size + 32, "width": size}, {"batch": 3, "height": size - 32, "width": size})
    return Entry(module, {"x": torch.rand(2, 3, size, size)}, {"x": dims}, sizes)


class Detector(torch.nn.Module):
    """A torchvision detector for one image, whose results are tensors: boxes, scores, labels."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, image):
        return tuple(self.module([image])[0].values())


def _detector(name, size=320, **options):
    import torchvision

    # random weights score boxes alike: the order of boxes whose scores differ by a rounding isn't the same everywhere
    module = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options)
    return Entry(Detector(module), {"image": torch.rand(3, size, size)}, {"image": {1: "height", 2: "width"}},
                 ({"height": size + 64, "width": size},))


def _huggingface(model, config, options, inputs, dims, sizes, part=None, **fixed):
    import transformers

    settings = getattr(transformers, config)(**options)
    module = getattr(transformers, model)(settings)
    if part:
        module = part(module)
    return Entry(Results(module, list(inputs), **fixed), inputs, dims, sizes)


SMALL = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512, vocab_size=1000)
TEXT_SIZES = ({"batch": 1, "sequence": 17}, {"batch": 3, "sequence": 48})


def _encoder(model, config, options, length=32):
    return _huggingface(model, config, options, {"input_ids": _tokens(length)}, {"input_ids": TOKENS}, TEXT_SIZES)


def _decoder(model, config, options, length=32):
    inputs = {"input_ids": _tokens(length), "attention_mask": torch.ones(2, length, dtype=torch.int64)}
    return _huggingface(model, config, options, inputs, dict.fromkeys(inputs, TOKENS), TEXT_SIZES)


def _vision(model, config, options, size=224):
    return _huggingface(model, config, options, {"pixel_values": torch.rand(2, 3, size, size)},
                        {"pixel_values": BATCH}, ({"batch": 1}, {"batch": 3}))


class CachedDecoder(torch.nn.Module):
    """One step of a decoder as optimum exports it: keys and values of earlier tokens are inputs, all of them results."""

    def __init__(self, module, layers):
        super().__init__()
        self.module, self.layers = module, layers

    def forward(self, input_ids, attention_mask, *past):
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.module(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        present = [tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (result.logits, *present)


def _cached_decoder(model, config, options, heads, head_dim, layers=2, past=9, new=3):
    import transformers

    module = getattr(transformers, model)(getattr(transformers, config)(**options))
    inputs = {"input_ids": _tokens(new), "attention_mask": torch.ones(2, past + new, dtype=torch.int64)}
    dims = {"input_ids": TOKENS, "attention_mask": {0: "batch", 1: "total"}}
    for layer in range(layers):
        for kind in ("key", "value"):
            inputs[f"past_{layer}_{kind}"] = torch.randn(2, heads, past, head_dim)
            dims[f"past_{layer}_{kind}"] = {0: "batch", 2: "past"}
    sizes = ({"batch": 1, "sequence": 1, "past": 20, "total": 21}, {"batch": 3, "sequence": 5, "past": 2, "total": 7})
    return Entry(CachedDecoder(module, layers), inputs, dims, sizes)


class Tagger(torch.nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.embedding = torch.nn.Embedding(500, 64)
        self.recurrent = cell(64, 96, 2, bidirectional=True, batch_first=True)
        self.classes = torch.nn.Linear(192, 20)

    def forward(self, x):
        return torch.log_softmax(self.classes(self.recurrent(self.embedding(x))[0]), -1)


def _tagger(cell):
    return Entry(Tagger(cell), {"x": torch.randint(0, 500, (2, 40))}, {"x": TOKENS}, TEXT_SIZES)


class Crnn(torch.nn.Module):
    """Text recognition: convolutions, columns as a sequence, LSTM, class scores per column."""

    def __init__(self):
        super().__init__()
        layers, width = [], 1
        for out, pool in ((32, (2, 2)), (64, (2, 2)), (128, (2, 1)), (128, (2, 1)), (128, (2, 1))):
            layers += [torch.nn.Conv2d(width, out, 3, padding=1), torch.nn.BatchNorm2d(out), torch.nn.ReLU(),
                       torch.nn.MaxPool2d(pool)]
            width = out
        self.features = torch.nn.Sequential(*layers)
        self.recurrent = torch.nn.LSTM(128, 64, 2, bidirectional=True)
        self.classes = torch.nn.Linear(128, 97)

    def forward(self, x):
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        return self.classes(self.recurrent(columns)[0])


class UNet(torch.nn.Module):
    """Segmentation with skip connections, transposed convolutions and a resize to the size of the skip."""

    def __init__(self):
        super().__init__()
        conv = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.GroupNorm(4, o), torch.nn.SiLU())
        self.down = torch.nn.ModuleList([conv(3, 16), conv(16, 32), conv(32, 64)])
        self.up = torch.nn.ModuleList([torch.nn.ConvTranspose2d(64, 32, 2, 2), torch.nn.ConvTranspose2d(32, 16, 2, 2)])
        self.join = torch.nn.ModuleList([conv(64, 32), conv(32, 16)])
        self.head = torch.nn.Conv2d(16, 5, 1)

    def forward(self, x):
        skips = []
        for index, layer in enumerate(self.down):
            x = layer(x if index == 0 else torch.nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for index, (up, join) in enumerate(zip(self.up, self.join)):
            x, skip = up(x), skips[1 - index]
            x = torch.nn.functional.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
            x = join(torch.cat([x, skip], 1))
        return self.head(x)


def _images(module, channels, height, width, other, batch=2):
    dims = {0: "batch", 2: "height", 3: "width"}
    return Entry(module, {"x": torch.rand(batch, channels, height, width)}, {"x": dims}, (dict(batch=1, height=other[0], width=other[1]),))


class NmsDetector(torch.nn.Module):
    """A one-stage detector with selection inside: scores, decoding, NMS, gathering."""

    def __init__(self):
        super().__init__()
        conv = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, 2, 1), torch.nn.BatchNorm2d(o), torch.nn.SiLU())
        self.body = torch.nn.Sequential(conv(3, 16), conv(16, 32), conv(32, 64))
        self.head = torch.nn.Conv2d(64, 4 + 6, 1)

    def forward(self, x):
        from torchvision.ops import batched_nms

        y = self.head(self.body(x))[0]
        rows, columns = torch.meshgrid(torch.arange(y.shape[1]), torch.arange(y.shape[2]), indexing="ij")
        center = torch.stack([columns, rows], -1).reshape(-1, 2) * 8.0 + 4.0
        y = y.flatten(1).T
        center, size = center + y[:, :2].sigmoid() * 8, y[:, 2:4].exp() * 16
        boxes = torch.cat([center - size / 2, center + size / 2], 1)
        scores, labels = y[:, 4:].sigmoid().max(1)
        kept = batched_nms(boxes, scores, labels, 0.5)[:50]
        return boxes[kept], scores[kept], labels[kept]


def _nms_detector():
    return Entry(NmsDetector(), {"x": torch.rand(1, 3, 160, 160)}, {"x": {2: "height", 3: "width"}},
                 ({"height": 192, "width": 128},))


ENTRIES = {}
for _name, _size in dict(
        mobilenetv3_large_100=224, efficientnet_b0=224, efficientnetv2_rw_t=224, convnext_tiny=224, convnextv2_nano=224,
        regnety_008=224, resnext50_32x4d=224, seresnet50=224, res2net50_26w_4s=224, densenet161=224, poolformer_s12=224,
        pvt_v2_b1=224, mobileone_s1=224, repvgg_a2=224, ghostnet_100=224, xception41=299, vgg16_bn=224, tinynet_a=192,
        mnasnet_100=224, lcnet_100=224, resnet50=224, hrnet_w18_small=224, dla34=224).items():
    ENTRIES["timm_" + _name] = lambda n=_name, s=_size: _timm(n, s)
for _name, _size in dict(
        vit_small_patch16_224=224, deit3_small_patch16_224=224, swin_tiny_patch4_window7_224=224, mixer_s32_224=224,
        mobilevit_s=256, efficientformer_l1=224, beit_base_patch16_224=224, resmlp_12_224=224, gmlp_s16_224=224,
        cait_xxs24_224=224, coat_lite_tiny=224, levit_128s=224, maxvit_nano_rw_256=256, volo_d1_224=224,
        xcit_nano_12_p16_224=224, eva02_tiny_patch14_224=224, fastvit_t8=256).items():
    ENTRIES["timm_" + _name] = lambda n=_name, s=_size: _timm(n, s, BATCH)
for _name in ("googlenet", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "regnet_x_800mf", "alexnet"):
    ENTRIES["tv_" + _name] = lambda n=_name: _torchvision(n, **({"init_weights": True} if n == "googlenet" else {}))
ENTRIES["tv_vit_b_32"] = lambda: _torchvision("vit_b_32", dims=BATCH)
ENTRIES["tv_swin_v2_t"] = lambda: _torchvision("swin_v2_t", dims=BATCH)
ENTRIES["tv_inception_v3"] = lambda: _torchvision("inception_v3", 299, init_weights=True)
for _name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    ENTRIES["tv_" + _name] = lambda n=_name: _torchvision(n, 256, backbone=None)
for _name in ("ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn",
              "fcos_resnet50_fpn", "ssd300_vgg16", "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn"):
    ENTRIES["tvdet_" + _name] = lambda n=_name: _detector(n)

ENTRIES["hf_distilbert"] = lambda: _encoder("DistilBertModel", "DistilBertConfig", dict(dim=256, n_layers=3, n_heads=4, hidden_dim=512, vocab_size=1000))
ENTRIES["hf_bert"] = lambda: _encoder("BertModel", "BertConfig", SMALL)
ENTRIES["hf_roberta"] = lambda: _encoder("RobertaModel", "RobertaConfig", SMALL)
ENTRIES["hf_albert"] = lambda: _encoder("AlbertModel", "AlbertConfig", dict(SMALL, embedding_size=64))
ENTRIES["hf_electra"] = lambda: _encoder("ElectraModel", "ElectraConfig", dict(SMALL, embedding_size=64))
ENTRIES["hf_deberta_v2"] = lambda: _encoder("DebertaV2Model", "DebertaV2Config", dict(SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=32))
ENTRIES["hf_mpnet"] = lambda: _encoder("MPNetModel", "MPNetConfig", SMALL)
ENTRIES["hf_xlm_roberta"] = lambda: _encoder("XLMRobertaModel", "XLMRobertaConfig", SMALL)
ENTRIES["hf_modernbert"] = lambda: _encoder("ModernBertModel", "ModernBertConfig", dict(SMALL, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2))
ENTRIES["hf_fnet"] = lambda: _encoder("FNetModel", "FNetConfig", {k: v for k, v in SMALL.items() if k != "num_attention_heads"})
for _name, _model, _config, _more in (
        ("llama", "LlamaForCausalLM", "LlamaConfig", dict(num_key_value_heads=2)),
        ("qwen3", "Qwen3ForCausalLM", "Qwen3Config", dict(num_key_value_heads=2, head_dim=64)),
        ("mistral", "MistralForCausalLM", "MistralConfig", dict(num_key_value_heads=2, sliding_window=16)),
        ("gemma2", "Gemma2ForCausalLM", "Gemma2Config", dict(num_key_value_heads=2, head_dim=64)),
        ("phi", "PhiForCausalLM", "PhiConfig", {}), ("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
        ("mixtral", "MixtralForCausalLM", "MixtralConfig", dict(num_key_value_heads=2, num_local_experts=4)),
        ("mamba", "MambaForCausalLM", "MambaConfig", dict(state_size=8)),
        ("bloom", "BloomForCausalLM", "BloomConfig", dict(n_layer=2, n_head=4)),
        ("falcon", "FalconForCausalLM", "FalconConfig", {})):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _decoder(m, c, dict(SMALL, use_cache=False, **o))
ENTRIES["hf_gpt2"] = lambda: _decoder("GPT2LMHeadModel", "GPT2Config", dict(n_embd=256, n_layer=2, n_head=4, vocab_size=1000, use_cache=False))
ENTRIES["hf_opt"] = lambda: _decoder("OPTForCausalLM", "OPTConfig", dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, ffn_dim=512, vocab_size=1000, word_embed_proj_dim=256, use_cache=False))
T5 = dict(d_model=256, num_layers=2, num_heads=4, d_ff=512, d_kv=64, vocab_size=1000, decoder_start_token_id=0, use_cache=False)
ENTRIES["hf_t5_encoder"] = lambda: _encoder("T5EncoderModel", "T5Config", T5)
_PAIR = lambda length: {"input_ids": _tokens(length), "decoder_input_ids": _tokens(7)}
_PAIR_DIMS = {"input_ids": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}
_PAIR_SIZES = ({"batch": 1, "sequence": 17, "target": 1}, {"batch": 3, "sequence": 40, "target": 9})
ENTRIES["hf_t5"] = lambda: _huggingface("T5ForConditionalGeneration", "T5Config", T5, _PAIR(32), _PAIR_DIMS, _PAIR_SIZES)
BART = dict(d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000, use_cache=False)
ENTRIES["hf_bart"] = lambda: _huggingface("BartForConditionalGeneration", "BartConfig", BART, _PAIR(32), _PAIR_DIMS, _PAIR_SIZES)
ENTRIES["hf_marian"] = lambda: _huggingface("MarianMTModel", "MarianConfig", dict(BART, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1, forced_eos_token_id=1), _PAIR(32), _PAIR_DIMS, _PAIR_SIZES)
WHISPER = dict(BART, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, num_mel_bins=80, begin_suppress_tokens=None, suppress_tokens=None)
_FEATURES = lambda: {"input_features": torch.rand(2, 80, 3000)}
ENTRIES["hf_whisper_encoder"] = lambda: _huggingface("WhisperModel", "WhisperConfig", WHISPER, _FEATURES(), {"input_features": BATCH}, ({"batch": 1}, {"batch": 3}), part=lambda m: m.get_encoder())
ENTRIES["hf_whisper"] = lambda: _huggingface("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, dict(_FEATURES(), decoder_input_ids=_tokens(5)), {"input_features": BATCH, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "target": 1}, {"batch": 3, "target": 9}))
_SOUND = lambda: {"input_values": torch.randn(2, 16000)}
_SOUND_SIZES = ({"batch": 1, "sequence": 12345}, {"batch": 3, "sequence": 8000})
SPEECH = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, num_conv_pos_embedding_groups=4, num_conv_pos_embeddings=16)
ENTRIES["hf_wav2vec2"] = lambda: _huggingface("Wav2Vec2ForCTC", "Wav2Vec2Config", SPEECH, _SOUND(), {"input_values": TOKENS}, _SOUND_SIZES)
ENTRIES["hf_hubert"] = lambda: _huggingface("HubertModel", "HubertConfig", SPEECH, _SOUND(), {"input_values": TOKENS}, _SOUND_SIZES)
ENTRIES["hf_wavlm"] = lambda: _huggingface("WavLMModel", "WavLMConfig", SPEECH, _SOUND(), {"input_values": TOKENS}, _SOUND_SIZES)
ENTRIES["hf_ast"] = lambda: _huggingface("ASTForAudioClassification", "ASTConfig", dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256), {"input_values": torch.rand(2, 1024, 128)}, {"input_values": BATCH}, ({"batch": 1}, {"batch": 3}))
ENTRIES["hf_vits"] = lambda: _huggingface("VitsModel", "VitsConfig", dict(vocab_size=60, hidden_size=64, num_hidden_layers=2, ffn_dim=128, flow_size=32, spectrogram_bins=65, noise_scale=0.0, noise_scale_duration=0.0, upsample_initial_channel=64), {"input_ids": _tokens(20, 1, 60)}, {"input_ids": {1: "sequence"}}, ({"sequence": 31},))
ENTRIES["hf_encodec"] = lambda: _huggingface("EncodecModel", "EncodecConfig", dict(num_filters=8, hidden_size=32, codebook_size=64, codebook_dim=32), {"input_values": torch.randn(2, 1, 8000)}, {"input_values": BATCH}, ({"batch": 1},), part=lambda m: m.encoder)

VISION = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512)
ENTRIES["hf_clip_vision"] = lambda: _vision("CLIPVisionModel", "CLIPVisionConfig", dict(VISION, image_size=224, patch_size=32))
ENTRIES["hf_clip_text"] = lambda: _encoder("CLIPTextModel", "CLIPTextConfig", dict(SMALL, bos_token_id=1, eos_token_id=2))
ENTRIES["hf_siglip_vision"] = lambda: _vision("SiglipVisionModel", "SiglipVisionConfig", dict(VISION, image_size=224, patch_size=32))
ENTRIES["hf_yolos"] = lambda: _vision("YolosModel", "YolosConfig", dict(VISION, image_size=[224, 224], num_detection_tokens=20))
ENTRIES["hf_dinov2"] = lambda: _vision("Dinov2Model", "Dinov2Config", dict(VISION, hidden_size=192, num_attention_heads=3, image_size=224, patch_size=14))
ENTRIES["hf_vit_mae"] = lambda: _vision("ViTModel", "ViTConfig", dict(VISION, image_size=224, patch_size=32))
ENTRIES["hf_segformer"] = lambda: _huggingface("SegformerForSemanticSegmentation", "SegformerConfig", dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], decoder_hidden_size=64), {"pixel_values": torch.rand(2, 3, 128, 128)}, {"pixel_values": IMAGE}, ({"batch": 1, "height": 160, "width": 96},))
ENTRIES["hf_detr"] = lambda: _huggingface("DetrForObjectDetection", "DetrConfig", dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=20, use_pretrained_backbone=False), {"pixel_values": torch.rand(2, 3, 160, 160)}, {"pixel_values": IMAGE}, ({"batch": 1, "height": 192, "width": 128},))
ENTRIES["hf_rt_detr"] = lambda: _huggingface("RTDetrForObjectDetection", "RTDetrConfig", dict(num_queries=50, decoder_layers=2), {"pixel_values": torch.rand(2, 3, 256, 256)}, {"pixel_values": BATCH}, ({"batch": 1},))
ENTRIES["hf_deformable_detr"] = lambda: _huggingface("DeformableDetrForObjectDetection", "DeformableDetrConfig", dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=20, use_pretrained_backbone=False), {"pixel_values": torch.rand(2, 3, 160, 160)}, {"pixel_values": BATCH}, ({"batch": 1},))
ENTRIES["hf_depth_anything"] = lambda: _huggingface("DPTForDepthEstimation", "DPTConfig", dict(VISION, num_hidden_layers=4, image_size=128, patch_size=16, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[32, 32, 64, 64], fusion_hidden_size=32), {"pixel_values": torch.rand(2, 3, 128, 128)}, {"pixel_values": BATCH}, ({"batch": 1},))
ENTRIES["hf_swin2sr"] = lambda: _huggingface("Swin2SRForImageSuperResolution", "Swin2SRConfig", dict(embed_dim=32, depths=[2, 2], num_heads=[2, 2], window_size=8, image_size=64), {"pixel_values": torch.rand(2, 3, 64, 64)}, {"pixel_values": BATCH}, ({"batch": 1},))
ENTRIES["hf_trocr"] = lambda: _decoder("TrOCRForCausalLM", "TrOCRConfig", dict(d_model=128, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=256, vocab_size=1000, use_cache=False), 9)
ENTRIES["hf_patchtst"] = lambda: _huggingface("PatchTSTForPrediction", "PatchTSTConfig", dict(num_input_channels=3, context_length=128, prediction_length=32, d_model=64, num_hidden_layers=2), {"past_values": torch.rand(2, 128, 3)}, {"past_values": BATCH}, ({"batch": 1},))
ENTRIES["hf_time_series"] = lambda: _huggingface("PatchTSMixerForPrediction", "PatchTSMixerConfig", dict(context_length=128, prediction_length=32, num_input_channels=3, d_model=32, num_layers=2), {"past_values": torch.rand(2, 128, 3)}, {"past_values": BATCH}, ({"batch": 1},))

ENTRIES["cached_gpt2"] = lambda: _cached_decoder("GPT2LMHeadModel", "GPT2Config", dict(n_embd=128, n_layer=2, n_head=4, vocab_size=1000), 4, 32)
ENTRIES["cached_llama"] = lambda: _cached_decoder("LlamaForCausalLM", "LlamaConfig", dict(SMALL, num_hidden_layers=2, num_key_value_heads=2), 2, 64)
ENTRIES["cached_qwen2"] = lambda: _cached_decoder("Qwen2ForCausalLM", "Qwen2Config", dict(SMALL, num_hidden_layers=2, num_key_value_heads=2), 2, 64)
ENTRIES["cached_gpt_neox"] = lambda: _cached_decoder("GPTNeoXForCausalLM", "GPTNeoXConfig", dict(SMALL, num_hidden_layers=2), 4, 64)

ENTRIES["own_lstm_tagger"] = lambda: _tagger(torch.nn.LSTM)
ENTRIES["own_gru_tagger"] = lambda: _tagger(torch.nn.GRU)
ENTRIES["own_crnn"] = lambda: Entry(Crnn(), {"x": torch.rand(2, 1, 32, 128)}, {"x": {0: "batch", 3: "width"}}, ({"batch": 1, "width": 200}, {"batch": 3, "width": 64}))
ENTRIES["own_unet"] = lambda: _images(UNet(), 3, 96, 96, (120, 80))
ENTRIES["own_nms_detector"] = _nms_detector
